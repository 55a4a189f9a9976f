package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/faultfs"
	"github.com/brockdb/brock/vfs"
)

// TestPlainBackup makes plain backups of an encrypted store, full and increments, of all
// keyspaces and of some, and restores them without keys. The increments go on when keyspaces come
// and go, and what was not changed isn't sent again.
func TestPlainBackup(t *testing.T) {
	for _, names := range [][]string{nil, {rareName}, {"", "fruit"}} {
		t.Run(fmt.Sprintf("%q", names), func(t *testing.T) {
			each := onEach
			if testing.Short() && names != nil {
				each = func(t *testing.T, test func(t *testing.T, p place)) { test(t, place{vfs.NewMem(), "/", nil}) }
			}
			each(t, func(t *testing.T, p place) {
				db, err := brock.Open(p.keyed("store", "values"))
				must(t, err)
				defer func() { must(t, db.Close()) }()
				w := newBusy(t, db, 4)
				var streams [][]byte
				var last *brock.BackupInfo
				for round := range 5 {
					w.steps(t, 60)
					secrets(t, db, round)
					switch round {
					case 1:
						must(t, db.Compact(t.Context()))
						keyspace(t, db, "new one", brock.KeyspaceOptions{})
					case 2:
						must2(db.Reclaim(t.Context()))
						must(t, db.RotateKey(t.Context(), brock.RotateOptions{}))
					case 3:
						must(t, keyspace(t, db, "new one", brock.KeyspaceOptions{}).Drop(t.Context()))
						must(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
					}
					want := retained(t, db, 0)
					if names != nil {
						want = partOf(want, names...)
					}
					o := brock.BackupOptions{Since: last, Keyspaces: names, Plain: true, Compress: round%2 == 1}
					stream, info := backedUp(t, db, o)
					streams, last = append(streams, stream), info
					if found := rareIn(stream); round%2 == 0 && len(found) < 2 {
						t.Errorf("round %d: the stream has only %q in clear", round, found)
					}
					copied := restored(t, p.retaining(fmt.Sprint("new ", round), aside("of", round)), want, streams...)
					must(t, copied.Compact(t.Context()))
					same(t, "compacted", retained(t, copied, 0), want)
					must2(copied.Reclaim(t.Context()))
					same(t, "collected", retained(t, copied, 0), want)
					seen, err := brock.VerifyBackup(t.Context(), bytes.NewReader(bytes.Join(streams, nil)))
					must(t, err)
					wantSameInfo(t, seen, info)
					for _, dir := range []string{"store", "values"} {
						if found := inClear(t, p.fs, p.in(dir)); found != nil {
							t.Errorf("round %d: %s: %v", round, dir, found)
						}
					}
				}
				must(t, db.Compact(t.Context()))
				_, before := backedUp(t, db, brock.BackupOptions{Since: last, Keyspaces: names, Plain: true})
				must(t, db.Set([]byte("one more"), []byte("value")))
				must(t, w.ks.Set([]byte("one more"), []byte("value")))
				stream, info := backedUp(t, db, brock.BackupOptions{Since: before, Keyspaces: names, Plain: true})
				if info.Sent > 2 || int64(len(stream)) > info.StoreBytes/3 {
					t.Errorf("%d of %d files in %d bytes were sent again", info.Sent, info.Files, len(stream))
				}
			})
		})
	}
}

// TestProgressOfOwnFiles: a backup that first makes files of its own tells how far it is with them,
// out of what it has to read. If that call panics, nothing is left.
func TestProgressOfOwnFiles(t *testing.T) {
	mem := vfs.NewMem()
	db, err := brock.Open(place{mem, "/", nil}.keyed("store", ""))
	must(t, err)
	defer func() { must(t, db.Close()) }()
	ks := keyspace(t, db, "other", brock.KeyspaceOptions{})
	for i := range 600 {
		must(t, db.Set(fmt.Appendf(nil, "key %d", i), incompressible(i, 20000)))
		must(t, ks.Set(fmt.Appendf(nil, "key %d", i), incompressible(i, 200)))
	}
	must(t, db.Compact(t.Context()))
	before := must2(mem.List("/store"))
	for _, o := range []brock.BackupOptions{{Plain: true}, {Keyspaces: []string{""}}, {Keyspaces: []string{"other"}, Plain: true}} {
		var stream bytes.Buffer
		var told []brock.BackupProgress
		o.Progress = func(p brock.BackupProgress) {
			if told = append(told, p); p.Total == 0 && p.ToPrepare > 0 && stream.Len() > 0 {
				t.Errorf("%+v: the stream has begun", p)
			}
		}
		info := must2(db.Backup(t.Context(), &stream, o))
		between := 0
		for i, p := range told[1:] {
			was := told[i]
			if p.Prepared < was.Prepared || p.ToPrepare != was.ToPrepare || p.Bytes < was.Bytes || p.Total < was.Total || p.Total > 0 && p.Prepared < p.ToPrepare {
				t.Errorf("%+v after %+v", p, was)
			}
			if p.Prepared > 0 && p.Prepared < p.ToPrepare {
				between++
			}
		}
		first, last := told[0], told[len(told)-1]
		if first != (brock.BackupProgress{ToPrepare: first.ToPrepare}) || first.ToPrepare < 12e6 || last.Bytes != last.Total || last.Total != info.StoreBytes {
			t.Errorf("from %+v to %+v of %+v", first, last, info)
		}
		if most := o.Keyspaces == nil || o.Keyspaces[0] == ""; most && between < 2 {
			t.Errorf("told %d times while it prepared: %+v", between, told)
		}
		if o.Plain {
			told, stream, o.Since = nil, bytes.Buffer{}, info
			must2(db.Backup(t.Context(), &stream, o))
			if told[0] != (brock.BackupProgress{}) {
				t.Errorf("an increment without changes: %+v", told)
			}
		}
		for at := range 3 {
			o.Since = nil
			o.Progress = func(brock.BackupProgress) {
				if at--; at < 0 {
					panic("the caller's")
				}
			}
			func() {
				defer func() { _ = recover() }()
				_, err := db.Backup(t.Context(), &stream, o)
				t.Errorf("no panic, %v", err)
			}()
			if made := since(before, must2(mem.List("/store"))); len(made) > 0 {
				t.Errorf("left %q", made)
			}
		}
	}
}

// TestPlainBackupRefuses asks for increments of backups that are not plain, restores with keys,
// and has each call of the file system fail. Nothing is left.
func TestPlainBackupRefuses(t *testing.T) {
	mem := vfs.NewMem()
	faulty := faultfs.New(mem, faultfs.Options{})
	o := place{mem, "/", nil}.keyed("store", "")
	o.FS = faulty
	db, err := brock.Open(o)
	must(t, err)
	defer func() { must(t, db.Close()) }()
	secrets(t, db, 0)
	must(t, db.Compact(t.Context()))
	before, err := mem.List("/store")
	must(t, err)
	_, whole := backedUp(t, db, brock.BackupOptions{})
	_, some := backedUp(t, db, brock.BackupOptions{Keyspaces: []string{rareName}})
	plain, clear := backedUp(t, db, brock.BackupOptions{Plain: true})
	_, clearSome := backedUp(t, db, brock.BackupOptions{Plain: true, Keyspaces: []string{rareName}})
	wantEqual(t, "keyspaces", fmt.Sprintf("%q", clear.Keyspaces), fmt.Sprintf("%q", []string{"", rareName}))
	for what, c := range map[string]struct {
		o    brock.BackupOptions
		want error
	}{
		"plain behind encrypted":           {brock.BackupOptions{Since: whole, Plain: true}, brock.ErrInvalid},
		"plain behind some encrypted":      {brock.BackupOptions{Since: some, Plain: true}, brock.ErrUnsupported},
		"encrypted behind plain":           {brock.BackupOptions{Since: clear}, brock.ErrInvalid},
		"some encrypted behind some plain": {brock.BackupOptions{Since: clearSome, Keyspaces: []string{rareName}}, brock.ErrUnsupported},
		"some plain behind all plain":      {brock.BackupOptions{Since: clear, Plain: true, Keyspaces: []string{rareName}}, brock.ErrInvalid},
		"all plain behind some plain":      {brock.BackupOptions{Since: clearSome, Plain: true}, brock.ErrInvalid},
		"some plain that are not there":    {brock.BackupOptions{Plain: true, Keyspaces: []string{"none"}}, brock.ErrKeyspaceNotFound},
		"some plain behind some others":    {brock.BackupOptions{Since: clearSome, Plain: true, Keyspaces: []string{""}}, brock.ErrInvalid},
	} {
		var b bytes.Buffer
		_, err := db.Backup(t.Context(), &b, c.o)
		wantErr(t, what, err, c.want)
		wantEqual(t, what+": bytes", b.Len(), 0)
	}
	_, err = brock.Restore(t.Context(), bytes.NewReader(plain), brock.Options{FS: mem, Dir: "/keyed", Keys: masterKey(1)})
	wantErr(t, "restore with keys", err, brock.ErrKey)
	for at := 11; at < len(plain); at += len(plain) / 9 {
		_, err = brock.Restore(t.Context(), bytes.NewReader(plain[:at]), brock.Options{FS: mem, Dir: "/keyed"})
		wantErr(t, fmt.Sprint("cut at ", at), err, brock.ErrCorrupt)
	}
	if _, err := mem.Stat("/keyed"); err == nil {
		t.Error("something is left")
	}
	for nth := 1; ; nth++ {
		faulty.Inject(faultfs.Fault{Kinds: faultfs.Write | faultfs.Create | faultfs.Sync | faultfs.Read, Nth: nth})
		stream := &bytes.Buffer{}
		_, err := db.Backup(t.Context(), stream, brock.BackupOptions{Plain: true})
		faulty.Heal()
		if err == nil {
			break
		}
		if _, err := brock.VerifyBackup(t.Context(), stream); err == nil {
			t.Errorf("fault %d: the stream is good", nth)
		}
	}
	if made := since(before, must2(mem.List("/store"))); len(made) > 0 {
		t.Errorf("left %q", made)
	}
}

// TestPlainBackupCrashes ends the process while the files of a plain backup are there: nothing of
// them can be read, and the next Open removes them.
func TestPlainBackupCrashes(t *testing.T) {
	mem := vfs.NewMem()
	o := place{mem, "/", nil}.keyed("store", "")
	db, err := brock.Open(o)
	must(t, err)
	secrets(t, db, 0)
	secrets(t, db, 1)
	must(t, db.Compact(t.Context()))
	want := retained(t, db, 0)
	killed, made := killedBackup(t, mem, db, brock.BackupOptions{Plain: true})
	if found := inClear(t, killed, "/store"); found != nil {
		t.Errorf("in clear: %v", found)
	}
	o.FS = killed
	to := brock.Options{FS: vfs.NewMem(), Dir: "/saved", Keys: masterKey(7), KeyspaceDefaults: o.KeyspaceDefaults}
	must2(brock.Salvage(t.Context(), o, to, nil))
	saved := opened(t, to)
	again := opened(t, o)
	same(t, "after the crash", retained(t, again, 0), want)
	same(t, "saved", contents(t, saved), contents(t, again))
	names, err := killed.List("/store")
	must(t, err)
	for _, name := range made {
		if slices.Contains(names, name) {
			t.Errorf("%s is still there", name)
		}
	}
}

// TestPlainBackupOfPlainStore: of a plain store every backup is the same with Plain. Backups
// from before EncryptStore and increments from after it are restored with the keys.
func TestPlainBackupOfPlainStore(t *testing.T) {
	p := place{vfs.NewMem(), "/", nil}
	o := p.retaining("store", "values")
	db, err := brock.Open(o)
	must(t, err)
	secrets(t, db, 0)
	full, info := backedUp(t, db, brock.BackupOptions{})
	restored(t, p.retaining("plain", ""), retained(t, db, 0), full)
	again, _ := backedUp(t, db, brock.BackupOptions{Plain: true, Since: info})
	restored(t, p.retaining("again", ""), retained(t, db, 0), full, again)
	_, some := backedUp(t, db, brock.BackupOptions{Keyspaces: []string{rareName}})
	must(t, db.Close())
	keyed := o
	keyed.Keys = masterKey(1)
	must(t, brock.EncryptStore(t.Context(), keyed))
	db = opened(t, keyed)
	secrets(t, db, 1)
	streams := [][]byte{full}
	for round := range 2 {
		inc, next := backedUp(t, db, brock.BackupOptions{Since: info})
		streams, info = append(streams, inc), next
		restored(t, p.keyed(fmt.Sprint("new ", round), ""), retained(t, db, 0), streams...)
		must(t, db.RotateKey(t.Context(), brock.RotateOptions{Rewrite: true}))
	}
	_, err = brock.Restore(t.Context(), bytes.NewReader(bytes.Join(streams, nil)), p.retaining("without", ""))
	wantErr(t, "without keys", err, brock.ErrKey)
	_, err = db.Backup(t.Context(), &bytes.Buffer{}, brock.BackupOptions{Since: some, Keyspaces: []string{rareName}})
	wantErr(t, "an increment of plain keyspaces", err, brock.ErrUnsupported)
}
