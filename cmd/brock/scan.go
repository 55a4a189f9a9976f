package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
	"github.com/brockdb/brock/cmd/brock/internal/pairs"
)

type scanCommand struct {
	readable
	bounds
	Reverse bool `help:"From the greatest key to the least."`
	Limit   int  `help:"At most this many pairs; 0 = all."`
	Keys    bool `help:"Keys only. Values are not read."`
	keyspaceFlag
	JSON bool `help:"Print a line of JSON for each pair, exact and complete. By default long values are cut and unprintable bytes quoted."`
}

// Run prints a line for each pair.
func (c *scanCommand) Run(a *app) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	o.Reverse, o.Limit, o.KeysOnly = c.Reverse, c.Limit, c.Keys
	out := bufio.NewWriter(a.out)
	write := c.printer(out)
	err = c.read(a, func(db *brock.DB) error {
		return c.view(a, db, func(txn *brock.Txn) error {
			for item, err := range txn.Items(o) {
				if err != nil {
					return err
				}
				if err := write(item); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return errors.Join(err, out.Flush())
}

// printer returns the function that writes a line.
func (c *scanCommand) printer(out *bufio.Writer) func(*brock.Item) error {
	lines := pairs.NewWriter(pairs.JSONL, out)
	switch {
	case c.JSON && c.Keys:
		return func(item *brock.Item) error { return lines.Write(pairs.KeyOf(item)) }
	case c.JSON:
		return func(item *brock.Item) error {
			pair, err := pairs.Of(item)
			if err != nil {
				return err
			}
			return lines.Write(pair)
		}
	case c.Keys:
		return func(item *brock.Item) error {
			_, err := fmt.Fprintln(out, printable(item.Key()))
			return err
		}
	}
	return func(item *brock.Item) error { return printItem(out, item) }
}

func printItem(out io.Writer, item *brock.Item) error {
	if _, err := fmt.Fprintf(out, "%s\t", printable(item.Key())); err != nil {
		return err
	}
	return printValue(out, item)
}

// printValue ends a line with the value, or the beginning of a long one.
func printValue(out io.Writer, item *brock.Item) error {
	const most = 120 // bytes of a value that are shown
	value, err := item.Value()
	if err != nil {
		return err
	}
	rest := ""
	if len(value) > most {
		value, rest = value[:most], fmt.Sprintf(" … of %s", human.Bytes(item.ValueSize()))
	}
	_, err = fmt.Fprintf(out, "%s%s\n", printable(value), rest)
	return err
}

// printable returns b if it is plain text, else b quoted as in Go.
func printable(b []byte) string {
	plain := utf8.Valid(b)
	for _, r := range string(b) {
		plain = plain && unicode.IsPrint(r)
	}
	if plain {
		return string(b)
	}
	return strconv.Quote(string(b))
}
