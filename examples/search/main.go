// Search keeps a full-text index of documents that another process writes.
//
//	search write              writes documents to docs.db, until it is stopped
//	search index              follows docs.db and keeps the index in index.db, until it is stopped
//	search query WORD...      prints the documents that have all the words
//	search                    runs writer and indexer for 5 seconds, and then a query
package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/typed"
)

const docsDir, indexDir = "docs.db", "index.db"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 0:
		return demonstrate(ctx)
	case args[0] == "write":
		return write(ctx)
	case args[0] == "index":
		return index(ctx)
	case args[0] == "query" && len(args) > 1:
		return query(args[1:])
	}
	return errors.New("usage: search [write | index | query WORD...]")
}

// demonstrate runs writer and indexer as processes of their own.
func demonstrate(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	for _, command := range []string{"write", "index"} {
		cmd := exec.CommandContext(ctx, os.Args[0], command)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			return err
		}
		defer func() { _ = cmd.Wait() }() // the end of ctx kills it
	}
	<-ctx.Done()
	return query([]string{"river", "snow"})
}

// --- The writer: it knows nothing of the index.

// write changes documents at random.
func write(ctx context.Context) error {
	// An indexer that was away goes on where it was, as long as the history reaches back to there.
	db, err := brock.Open(brock.Options{Dir: docsDir, FeedRetention: brock.FeedRetention{Age: time.Hour, Bytes: 64 << 20}})
	if err != nil {
		return err
	}
	defer db.Close()
	for n := 0; ctx.Err() == nil; n++ {
		err := db.Update(func(txn *brock.Txn) error {
			for range 1 + rand.IntN(3) {
				id := rand.Uint64N(5000)
				if rand.IntN(5) == 0 {
					if err := txn.Delete(docKey(id)); err != nil {
						return err
					}
				} else if err := txn.Set(docKey(id), []byte(invent())); err != nil {
					return err
				}
			}
			if rand.IntN(1000) == 0 {
				lo := rand.Uint64N(5000)
				return txn.DeleteRange(docKey(lo), docKey(lo+100))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if n%1000 == 0 {
			fmt.Printf("writer: version %d\n", db.Version())
		}
	}
	return nil
}

func docKey(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

// invent returns some text.
func invent() string {
	words := strings.Fields("the a river snow mountain bird stone light of in under over sings falls Falls, waits turns rises and night morning wind tree")
	var text []string
	for range 4 + rand.IntN(12) {
		text = append(text, words[rand.IntN(len(words))])
	}
	return strings.Join(text, " ") + "."
}

// --- The index: a table of the words of each document, with an index by word.

// words is what the index knows of a document.
type words []string

type inverted struct {
	db     *brock.DB
	table  *typed.Table[uint64, words]
	byWord *typed.Index[string, uint64, words]
}

// openIndex opens an index. Its commits are Buffered: the position is in the same transaction as
// what it stands for, so after a power loss the index goes on from an older position.
func openIndex(o brock.Options) (*inverted, error) {
	o.Durability = brock.Buffered
	db, err := brock.Open(o)
	if err != nil {
		return nil, err
	}
	ks, err := db.Keyspace("index")
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	ix := &inverted{db: db, table: typed.NewTable(ks, "documents", typed.Uint64, typed.JSON[words]())}
	ix.byWord = typed.NewIndex(ix.table, "word", typed.String, func(w *words) []string { return *w })
	return ix, nil
}

// split returns the words of a text, in lower case, each once.
func split(text string) words {
	all := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	slices.Sort(all)
	return slices.Compact(all)
}

// search returns the documents that have all the words.
func (ix *inverted) search(all words) (ids []uint64, err error) {
	err = ix.db.View(func(txn *brock.Txn) error {
		ids = nil
		for row, err := range ix.byWord.Of(txn, all[0]) {
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(all, func(w string) bool { return !slices.Contains(*row.Record, w) }) {
				ids = append(ids, row.Key)
			}
		}
		return nil
	})
	return ids, err
}

// query prints what the index finds, while the indexer may be running.
func query(args []string) error {
	all := split(strings.Join(args, " "))
	if len(all) == 0 {
		return errors.New("no words")
	}
	ix, err := openIndex(brock.Options{Dir: indexDir, Mode: brock.Follow})
	if err != nil {
		return err
	}
	defer ix.db.Close()
	docs, err := brock.Open(brock.Options{Dir: docsDir, Mode: brock.Follow})
	if err != nil {
		return err
	}
	defer docs.Close()
	ids, err := ix.search(all)
	if err != nil {
		return err
	}
	fmt.Printf("%d documents have the words %q\n", len(ids), all)
	for _, id := range ids[:min(len(ids), 5)] {
		// The writer may have changed it since: then there is other text, or none.
		text, err := docs.Get(docKey(id))
		if err != nil && !errors.Is(err, brock.ErrKeyNotFound) {
			return err
		}
		fmt.Printf("%5d  %s\n", id, text)
	}
	return nil
}

// --- The indexer.

// index follows the documents until ctx ends.
func index(ctx context.Context) error {
	docs, err := brock.Open(brock.Options{Dir: docsDir, Mode: brock.Follow})
	for ; errors.Is(err, brock.ErrNotExist) && ctx.Err() == nil; docs, err = brock.Open(brock.Options{Dir: docsDir, Mode: brock.Follow}) {
		<-time.After(100 * time.Millisecond) // the writer has not made it yet
	}
	if err != nil {
		return err
	}
	defer docs.Close()
	ix, err := openIndex(brock.Options{Dir: indexDir})
	if err != nil {
		return err
	}
	defer ix.db.Close()
	n := 0
	return ix.follow(ctx, docs, func(c *brock.Commit) bool {
		if n++; n%1000 == 0 || c.Snapshot {
			fmt.Printf("indexer: position %v\n", c.Position())
		}
		return true
	})
}

// positionKey has the position behind the last commit that is in the index. It lies in the default
// keyspace.
var positionKey = []byte("position")

// follow brings the index up to date and keeps it so, until ctx ends or after returns false, which
// is called after each commit.
func (ix *inverted) follow(ctx context.Context, docs *brock.DB, after func(*brock.Commit) bool) error {
	o := brock.WatchOptions{Keyspaces: []*brock.Keyspace{nil}} // the default one alone
	text, err := ix.db.Get(positionKey)
	switch {
	case errors.Is(err, brock.ErrKeyNotFound):
		o.Snapshot = true
	case err != nil:
		return err
	default:
		if o.After, err = brock.ParsePosition(string(text)); err != nil {
			return err
		}
	}
	for commit, err := range docs.Watch(ctx, o) {
		if errors.Is(err, brock.ErrVersionGone) && !o.Snapshot {
			// It was away for longer than the history reaches, or the documents were restored.
			if err := ix.db.Delete(positionKey); err != nil {
				return err
			}
			return ix.follow(ctx, docs, after)
		}
		if err != nil {
			return err
		}
		// Effects and position in one transaction: each commit counts exactly once, however often the
		// process is killed.
		err = ix.db.UpdateContext(ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
			return cmp.Or(ix.apply(txn, commit), txn.Set(positionKey, []byte(commit.Position().String())))
		})
		if err != nil || !after(commit) {
			return err
		}
	}
	return nil
}

// apply changes the index as a commit has changed the documents.
func (ix *inverted) apply(txn *brock.Txn, commit *brock.Commit) error {
	if commit.Snapshot { // the documents as they are: whatever the index has goes
		if err := ix.remove(txn, 0, nil); err != nil {
			return err
		}
	}
	for change, err := range commit.Changes() {
		if err != nil {
			return err
		}
		switch change.Kind {
		case brock.ChangeSet:
			var text []byte
			if text, err = change.Value(); err == nil {
				w := split(string(text))
				err = ix.table.Put(txn, binary.BigEndian.Uint64(change.Key), &w)
			}
		case brock.ChangeDelete:
			err = ix.table.Delete(txn, binary.BigEndian.Uint64(change.Key))
		case brock.ChangeDeleteRange:
			lo := uint64(0)
			if len(change.Key) == 8 {
				lo = binary.BigEndian.Uint64(change.Key)
			}
			err = ix.remove(txn, lo, change.Upper)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remove takes the documents from lo up to a key out of the index; nil is no bound.
func (ix *inverted) remove(txn *brock.Txn, lo uint64, upper []byte) error {
	for row, err := range ix.table.From(txn, lo) {
		if err != nil {
			return err
		}
		if upper != nil && row.Key >= binary.BigEndian.Uint64(upper) {
			return nil
		}
		if err := ix.table.Delete(txn, row.Key); err != nil {
			return err
		}
	}
	return nil
}
