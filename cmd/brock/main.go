// Command brock looks into a store, fills it, checks it and tries it out.
//
//	brock try             the whole engine at work on the Go source tree
//	brock try PATH        the same on a directory, .jsonl, .csv or .tsv of yours
//	brock load DIR FILE   fills a store; dump is the way back
//	brock import badger4 DIR NEW
//	                      makes a store of one of another engine; export is the way out
//	brock get DIR KEY     prints a value; set, del and scan do what they say
//	brock gc DIR          frees the disk space of garbage now
//	brock checkpoint DIR NEW
//	                      makes a copy that is a store, too
//	brock backup DIR FILE writes a store to one file, or what is new since another;
//	                      brock restore FILE... NEW is the way back
//	brock backup DIR --repository REPO
//	                      stores what has changed since the backup before
//	brock repository REPO lists its backups; restore makes a store of any of them
//	brock verify DIR      reads every byte and checks every checksum
//	brock salvage DIR NEW makes a new store of what is left of a damaged one
//	brock encrypt DIR     makes an encrypted store of a plain one; rekey changes its key, and
//	                      keygen FILE makes one
//	brock stats DIR       shows what a store holds; --watch shows what it does
//	brock tree DIR        draws its runs and segments
//	brock ui DIR          serves a page that shows files, sizes, keys and what goes on
//	brock bench DIR       measures it with the data that it has
//	brock inspect PATH    shows what its files are for, or what the bytes of one mean
//
// brock help COMMAND has the rest, and the exit codes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/brockdb/brock/cmd/brock/internal/progress"
)

// commands is the command line; each field is a command with a file of its own.
type commands struct {
	Try          tryCommand          `cmd:"" help:"Load, read, scan, update, kill and verify a fresh store, and report."`
	Get          getCommand          `cmd:"" help:"Write the value of a key to standard output."`
	Set          setCommand          `cmd:"" help:"Write one pair. Makes the store if there is none, but no keyspace."`
	Del          delCommand          `cmd:"" help:"Delete keys, or all keys of a range."`
	Scan         scanCommand         `cmd:"" help:"List pairs in the order of their keys."`
	Count        countCommand        `cmd:"" help:"Count pairs."`
	History      historyCommand      `cmd:"" help:"List the versions of a key that are kept, newest first."`
	Watch        watchCommand        `cmd:"" help:"Print what is committed, commit by commit, as lines of JSON, while a program writes the store."`
	Load         loadCommand         `cmd:"" help:"Write the pairs of a file or directory. Makes the store if there is none."`
	Dump         dumpCommand         `cmd:"" help:"Write all pairs of all keyspaces in a form that load reads."`
	Import       importCommand       `cmd:"" help:"Make a store of one of Badger, bbolt, LevelDB or Pebble, and compare the two."`
	Export       exportCommand       `cmd:"" help:"Write all pairs with their keyspaces and versions as lines of JSON, or as a bbolt file."`
	Keyspaces    keyspacesCommand    `cmd:"" help:"List, create and drop keyspaces, and change their options."`
	Stats        statsCommand        `cmd:"" help:"Show what a store holds, and in which files."`
	Tree         treeCommand         `cmd:"" help:"Draw the runs and segments of a store."`
	UI           uiCommand           `cmd:"" name:"ui" help:"Serve a page that shows what a store holds and does, also while a program has it open."`
	Bench        benchCommand        `cmd:"" help:"Measure reads of a store, and writes of its pairs to a scratch store."`
	Gc           gcCommand           `cmd:"" help:"Free the disk space of garbage now. A store in use does it by itself."`
	Checkpoint   checkpointCommand   `cmd:"" help:"Make a copy of a store in a new directory. Files are shared where that is possible."`
	Backup       backupCommand       `cmd:"" help:"Write a store to one file, whole or what is new since another backup, or to a repository."`
	Restore      restoreCommand      `cmd:"" help:"Make a store of backups."`
	VerifyBackup verifyBackupCommand `cmd:"" help:"Check every byte of backups, and that each follows the one before."`
	Repository   repositoryCommand   `cmd:"" help:"List, verify, restore and prune the backups of a repository."`
	Salvage      salvageCommand      `cmd:"" help:"Make a new store of what can be read of a damaged one, which is not changed."`
	Rekey        rekeyCommand        `cmd:"" help:"Give an encrypted store a new data key, while no process has it open."`
	Encrypt      encryptCommand      `cmd:"" help:"Make an encrypted store of a plain one, while no process has it open."`
	Keygen       keygenCommand       `cmd:"" help:"Add a new master key for encrypted stores to a key file."`
	Verify       verifyCommand       `cmd:"" help:"Check every checksum and cross-reference."`
	Inspect      inspectCommand      `cmd:"" help:"List the files of a store, or show the bytes of one of them, with what they mean."`
	Version      versionCommand      `cmd:"" help:"Print the versions of the program and of its file format."`
	ShowVersion  versionFlag         `name:"version" help:"Print the version."`

	Help       helpCommand       `cmd:"" help:"Explain a command."`
	Completion completionCommand `cmd:"" help:"Print what makes a shell complete command lines."`

	Complete  completeCommand  `cmd:"" hidden:"" help:"What the shells ask."`
	TryWriter tryWriterCommand `cmd:"" hidden:"" help:"The process that try kills."`
}

// app is what commands get from their surroundings.
type app struct {
	ctx      context.Context // ends when the program is to end
	in       io.Reader
	out      io.Writer
	err      io.Writer
	progress *progress.Output
	terminal bool // out is one
	parser   *kong.Kong
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	a := &app{ctx: ctx, in: &input{ctx: ctx, from: os.Stdin}, out: os.Stdout, err: os.Stderr, progress: progress.To(os.Stderr), terminal: term.IsTerminal(int(os.Stdout.Fd()))}
	code := a.run(os.Args[1:])
	os.Exit(code)
}

// endings returns the signals that end a command in an orderly way, so that it leaves nothing
// half-made: Ctrl-C; SIGTERM, which service managers and timeout send; and SIGHUP, which a
// terminal sends when it is closed, unless that is ignored, as under nohup.
func endings() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// run executes one command line and returns its exit code.
func (a *app) run(args []string) int {
	if len(args) == 0 {
		args = []string{"--help"}
	}
	out := &output{to: a.out}
	a.out = out
	a.parser = kong.Must(&commands{},
		kong.Name("brock"),
		kong.Description("Brock is an embedded key-value store. Begin with: brock try\n\n"+exitCodes),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Writers(a.out, a.err),
	)
	line, err := a.parser.Parse(args)
	var wrong *kong.ParseError
	switch {
	case err == nil:
		err = usage(line, line.Run(a))
	case errors.As(err, &wrong):
		err = usage(wrong.Context, parseError(wrong))
	}
	// When the parser has written the help, and that failed, err is a usageError.
	if out.failed != nil && (err == nil || errors.As(err, new(usageError))) {
		err = out.failed
	}
	if text := message(err); text != "" {
		fmt.Fprintln(a.err, "brock:", text)
	}
	return exitCode(err)
}
