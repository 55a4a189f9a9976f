package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// completionScripts are the scripts by shell. They ask the program itself, so that they stay right
// after an update.
var completionScripts = map[string]string{
	"bash": `# bash completion for brock; in ~/.bashrc: source <(brock completion bash)
_brock() {
	local IFS=$'\n'
	COMPREPLY=($(compgen -W "$(brock complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1)" -- "${COMP_WORDS[COMP_CWORD]#=}"))
}
complete -o default -F _brock brock
`,
	"zsh": `#compdef brock
# zsh completion for brock; in ~/.zshrc, below compinit: source <(brock completion zsh)
_brock() {
	local -a found
	found=("${(@f)$(brock complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ -n $found[1] ]]; then
		found=("${(@)found//$'\t'/:}")
		_describe brock found
	else
		_files
	fi
}
compdef _brock brock
`,
	"fish": `# fish completion for brock: brock completion fish > ~/.config/fish/completions/brock.fish
complete -c brock -a '(brock complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
`,
}

// Run prints a script that the shell reads at its start.
func (c *completionCommand) Run(a *app) error {
	_, err := fmt.Fprint(a.out, completionScripts[c.Shell])
	return err
}

// completeCommand is the hidden command that the scripts run. If it prints nothing, they complete
// file names.
type completeCommand struct {
	Words []string `arg:"" optional:"" help:"The words after brock, up to the cursor."`
}

// Run prints a line for each candidate: the word, a tab, and what it means.
func (c *completeCommand) Run(a *app) error {
	// bash makes three words of --flag=value.
	words := slices.DeleteFunc(slices.Clone(c.Words), func(w string) bool { return w == "=" })
	if n := len(c.Words); n == 0 || c.Words[n-1] == "=" {
		words = append(words, "")
	}
	last, before := words[len(words)-1], words[:len(words)-1]
	at, given, flag := walk(a.parser.Model.Node, before)
	switch {
	case flag != nil:
		return candidates(a, last, "", flag.EnumSlice(), nil)
	case strings.HasPrefix(last, "-") && strings.Contains(last, "="):
		name, value, _ := strings.Cut(last, "=")
		if flag := flagOf(at, name); flag != nil {
			return candidates(a, value, name+"=", flag.EnumSlice(), nil)
		}
		return nil
	case strings.HasPrefix(last, "-"):
		var names, helps []string
		for _, group := range at.AllFlags(true) {
			for _, f := range group {
				names, helps = append(names, "--"+f.Name), append(helps, f.Help)
			}
		}
		return candidates(a, last, "", names, helps)
	}
	var names, helps []string
	for _, child := range at.Children {
		if !child.Hidden {
			names, helps = append(names, child.Name), append(helps, child.Help)
		}
	}
	if at.Name == "help" {
		return candidates(a, last, "", commandNames(a.parser.Model.Node), nil)
	}
	if given < len(at.Positional) {
		names = append(names, at.Positional[given].EnumSlice()...)
	}
	return candidates(a, last, "", names, helps)
}

// walk goes down the commands that the words name. It returns the command, how many of its arguments
// are given, and the flag whose value comes next.
func walk(at *kong.Node, words []string) (_ *kong.Node, given int, _ *kong.Flag) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		if strings.HasPrefix(w, "-") {
			flag := flagOf(at, w)
			switch {
			case flag == nil || flag.IsBool() || strings.Contains(w, "="):
			case i == len(words)-1:
				return at, given, flag
			default:
				i++
			}
			continue
		}
		given++
		for _, child := range at.Children {
			if child.Name == w {
				at, given = child, 0
				break
			}
		}
	}
	return at, given, nil
}

func flagOf(at *kong.Node, word string) *kong.Flag {
	for _, group := range at.AllFlags(false) {
		for _, f := range group {
			if "--"+f.Name == word {
				return f
			}
		}
	}
	return nil
}

func commandNames(n *kong.Node) (names []string) {
	for _, child := range n.Children {
		if !child.Hidden {
			names = append(names, child.Name)
		}
	}
	return names
}

// candidates prints the names that begin with begin, each after before, with a help text if there
// is one.
func candidates(a *app, begin, before string, names, helps []string) error {
	for i, name := range names {
		if name == "" || !strings.HasPrefix(name, begin) {
			continue
		}
		line := before + name
		if i < len(helps) {
			line += "\t" + helps[i]
		}
		if _, err := fmt.Fprintln(a.out, line); err != nil {
			return err
		}
	}
	return nil
}
