package store

import (
	"fmt"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// handle does the steps that begin, use and end transactions, batches and writers.
func (p *player) handle(s step, w words) (mine bool, result string, err error) {
	ctx := p.t.Context()
	switch txn, batch, writer := p.txns[s.who], p.batches[s.who], p.writers[s.who]; {
	case s.verb == "begin":
		o := brock.TxnOptions{Update: !w.has("readonly"), ReadAt: uint64(w.number("at"))}
		o.Isolation = map[string]brock.Isolation{"snapshot": brock.SnapshotIsolation, "lastwriter": brock.LastWriterWins}[w.values["isolation"]]
		if w.has("spill") {
			o.MaxMemory = 1
		}
		txn, err := p.db.Begin(ctx, o)
		if err == nil {
			p.txns[s.who] = txn
		}
		return true, "", err
	case s.verb == "batch":
		p.batches[s.who] = p.db.NewBatch()
	case s.verb == "writer":
		if ks := p.keyspace(s.keyspace); ks != nil {
			p.writers[s.who] = ks.NewWriter(ctx)
		} else {
			p.writers[s.who] = p.db.NewWriter(ctx)
		}
	case txn != nil && s.verb == "iterator":
		p.iterators[s.words[0]] = txn.In(p.keyspace(s.keyspace)).NewIterator(w.iterator())
	case txn != nil && s.verb == "commit":
		return true, "", txn.Commit()
	case txn != nil && s.verb == "discard":
		txn.Discard()
	case txn != nil && s.verb == "version":
		return true, fmt.Sprint(txn.ReadVersion()), nil
	case txn != nil && s.verb == "committed":
		return true, fmt.Sprint(txn.CommitVersion()), nil
	case batch != nil && s.verb == "commit":
		_, err := batch.Commit(ctx, 0)
		return true, "", err
	case batch != nil && s.verb == "reset":
		batch.Reset()
	case batch != nil && s.verb == "len":
		return true, fmt.Sprintf("%d writes, %d bytes", batch.Len(), batch.Size()), nil
	case writer != nil && s.verb == "flush":
		return true, "", writer.Flush()
	case writer != nil && s.verb == "close":
		return true, "", writer.Close()
	default:
		return false, "", nil
	}
	return true, "", nil
}

// store does the steps of the store as a whole.
func (p *player) store(s step, w words) (mine bool, result string, err error) {
	ctx := p.t.Context()
	m := p.db.Metrics()
	switch s.verb {
	case "keyspace":
		name := s.words[0]
		if as := w.values["as"]; as != "" {
			name = as
			delete(w.values, "as")
		}
		var o []brock.KeyspaceOptions
		if len(w.values) > 0 {
			o = append(o, w.keyspace())
		}
		before := p.keyspaces[name]
		ks, err := p.db.Keyspace(s.words[0], o...)
		if err != nil {
			return true, "", err
		}
		p.keyspaces[name] = ks
		if ks == before {
			return true, "the same", nil
		}
	case "options":
		o := p.keyspace(s.words[0]).Options()
		compression := map[brock.Compression]string{brock.NoCompression: "no", brock.S2: "S2", brock.Zstd: "Zstd"}[o.Compression]
		return true, fmt.Sprintf("threshold %d, ttl %v, versions %d, age %v, %s compression above %d",
			o.ValueThreshold, o.TTL, o.Versions.Versions, o.Versions.Age, compression, o.CompressAbove), nil
	case "separated":
		return true, fmt.Sprint(m.Tree.SegmentBytes > 0), nil
	case "change":
		return true, "", p.keyspace(s.words[0]).SetOptions(w.keyspace())
	case "drop":
		return true, "", p.keyspace(s.words[0]).Drop(ctx)
	case "clear":
		return true, "", p.keyspace(s.words[0]).Clear(ctx)
	case "dropall":
		return true, "", p.db.DropAll(ctx)
	case "dropprefix":
		var prefixes [][]byte
		for _, prefix := range s.words {
			prefixes = append(prefixes, unquote(prefix))
		}
		return true, "", p.db.DropPrefix(ctx, prefixes...)
	case "flush":
		return true, "", p.db.Flush(ctx)
	case "compact":
		return true, "", p.db.Compact(ctx)
	case "verify":
		return true, "", p.db.Verify(ctx, nil)
	case "version":
		return true, fmt.Sprint(p.db.Version()), nil
	case "entries":
		return true, fmt.Sprint(m.Tree.RunEntries), nil
	case "conflicts":
		return true, fmt.Sprint(m.Conflicts), nil
	case "wait":
		d, err := time.ParseDuration(s.words[0])
		p.clock.Add(d)
		return true, "", err
	case "close":
		return true, "", p.db.Close()
	case "reopen", "crash":
		if s.verb == "crash" {
			mode := vfs.Lost
			if w.has("all") {
				mode = vfs.All
			}
			p.mem = p.mem.CrashClone(vfs.CrashOptions{Mode: mode})
		}
		p.close()
		p.options.FS, p.options.Mode = p.mem, brock.ReadWrite
		if w.has("readonly") {
			p.options.Mode = brock.ReadOnly
		}
		if len(w.values) > 0 {
			p.options.KeyspaceDefaults = w.keyspace()
		}
		p.open()
	default:
		return false, "", nil
	}
	return true, "", nil
}
