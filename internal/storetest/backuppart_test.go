package storetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/faultfs"
	"github.com/brockdb/brock/vfs"
)

// partOf is what retained says of some keyspaces only.
func partOf(all string, names ...string) string {
	var b strings.Builder
	b.WriteString("[]\n")
	for _, section := range strings.SplitAfter(all, "\n[") {
		section = strings.TrimSuffix(strings.TrimPrefix(section, "["), "[")
		name, rest, _ := strings.Cut(section, "]\n")
		if name == "" && slices.Contains(names, "") {
			b.WriteString(rest)
		} else if slices.Contains(names, name) {
			b.WriteString("[" + name + "]\n" + rest)
		}
	}
	return b.String()
}

const (
	hiddenName  = "hidden-keyspace"
	hiddenKey   = "the hidden key "
	hiddenValue = "the hidden value "
)

// hide writes into a keyspace whose bytes are looked for in backups of other ones.
func hide(t testing.TB, db *brock.DB, round int) {
	t.Helper()
	ks, err := db.Keyspace(hiddenName)
	must(t, err)
	for i := range 60 {
		key := fmt.Appendf(nil, "%s%d", hiddenKey, i*7%60)
		must(t, ks.Set(key, bytes.Repeat([]byte(hiddenValue), 1+i%3*(200+round))))
	}
	must(t, ks.DeleteRange([]byte(hiddenKey+"1"), []byte(hiddenKey+"2")))
}

// TestBackupOfKeyspaces makes backups of some keyspaces, full and increments, and restores
// them. Nothing of other keyspaces is in a stream.
func TestBackupOfKeyspaces(t *testing.T) {
	for _, names := range [][]string{{"fruit"}, {""}, {"fruit", ""}} {
		t.Run(fmt.Sprint(names), func(t *testing.T) {
			each := onEach
			if testing.Short() && len(names) == 1 {
				each = func(t *testing.T, test func(t *testing.T, p place)) { test(t, place{vfs.NewMem(), "/", nil}) }
			}
			each(t, func(t *testing.T, p place) {
				o := p.retaining("store", "values")
				db, err := brock.Open(o)
				must(t, err)
				defer func() { must(t, db.Close()) }()
				w := newBusy(t, db, 3)
				var streams [][]byte
				var last *brock.BackupInfo
				for round := range 5 {
					w.steps(t, 80)
					hide(t, db, round)
					switch round {
					case 1: // a transaction that is spilled
						ks := keyspace(t, db, "fruit")
						must(t, db.Update(func(txn *brock.Txn) error {
							for i := range 400 {
								if err := txn.In(ks).Set(fmt.Appendf(nil, "large %d", i), incompressible(i, 1500)); err != nil {
									return err
								}
							}
							return nil
						}))
					case 2:
						must(t, db.Compact(t.Context()))
					case 3:
						_, err := db.Reclaim(t.Context())
						must(t, err)
					case 4: // nothing is new in runs that were there
						must(t, db.Flush(t.Context()))
					}
					want := partOf(retained(t, db, 0), names...)
					stream, info := backedUp(t, db, brock.BackupOptions{Since: last, Keyspaces: names, Compress: round%2 == 1})
					wantEqual(t, "Keyspaces", fmt.Sprintf("%q", info.Keyspaces), fmt.Sprintf("%q", slices.Sorted(slices.Values(names))))
					streams, last = append(streams, stream), info
					for _, secret := range []string{hiddenName, hiddenKey, hiddenValue} {
						if round%2 == 0 && bytes.Contains(stream, []byte(secret)) {
							t.Errorf("round %d: the stream has %q", round, secret)
						}
					}
					dir := fmt.Sprintf("new %d", round)
					copied := restored(t, p.retaining(dir, ""), want, streams...)
					must(t, copied.Compact(t.Context()))
					same(t, "compacted", retained(t, copied, 0), want)
					seen, err := brock.VerifyBackup(t.Context(), bytes.NewReader(bytes.Join(streams, nil)))
					must(t, err)
					wantSameInfo(t, seen, info)
					var again brock.BackupInfo
					b, err := info.MarshalBinary()
					must(t, err)
					must(t, again.UnmarshalBinary(b))
					wantSameInfo(t, &again, info)
				}
				// What was not changed isn't sent again.
				must(t, db.Compact(t.Context()))
				_, before := backedUp(t, db, brock.BackupOptions{Since: last, Keyspaces: names})
				must(t, w.ks.Set([]byte("one more"), []byte("value")))
				must(t, db.Set([]byte("one more"), []byte("value")))
				stream, info := backedUp(t, db, brock.BackupOptions{Since: before, Keyspaces: names})
				if info.Sent > 2 || int64(len(stream)) > info.StoreBytes/3 {
					t.Errorf("%d of %d files in %d bytes were sent again", info.Sent, info.Files, len(stream))
				}
			})
		})
	}
}

func wantSameInfo(t testing.TB, got, want *brock.BackupInfo) {
	t.Helper()
	a, err := got.MarshalBinary()
	must(t, err)
	b, err := want.MarshalBinary()
	must(t, err)
	wantEqual(t, "description", string(a), string(b))
}

// since returns the files that are there and were not before. Files may be gone: those that a
// compaction has replaced go when the last one that reads them has ended.
func since(before, now []string) (made []string) {
	return slices.DeleteFunc(slices.Clone(now), func(name string) bool { return slices.Contains(before, name) })
}

// TestBackupOfKeyspacesRefuses asks for keyspaces that aren't there, and for increments of
// backups of others. Files that were made on the way are gone.
func TestBackupOfKeyspacesRefuses(t *testing.T) {
	mem := vfs.NewMem()
	faulty := faultfs.New(mem, faultfs.Options{})
	o := place{mem, "/", nil}.retaining("store", "")
	o.FS, o.Maintenance.IdleAfter = faulty, time.Hour
	db, err := brock.Open(o)
	must(t, err)
	defer func() { must(t, db.Close()) }()
	w := newBusy(t, db, 1)
	w.steps(t, 100)
	hide(t, db, 1)
	must(t, db.Compact(t.Context()))
	before, err := mem.List("/store")
	must(t, err)
	stream, all := backedUp(t, db, brock.BackupOptions{})
	wantEqual(t, "hidden bytes in a backup of all", bytes.Contains(stream, []byte(hiddenKey)) && bytes.Contains(stream, []byte(hiddenValue)), true)
	_, one := backedUp(t, db, brock.BackupOptions{Keyspaces: []string{"fruit", "fruit"}})
	for what, o := range map[string]brock.BackupOptions{
		"all behind one":       {Since: one},
		"one behind all":       {Since: all, Keyspaces: []string{"fruit"}},
		"another one":          {Since: one, Keyspaces: []string{hiddenName}},
		"one more":             {Since: one, Keyspaces: []string{"fruit", ""}},
		"a keyspace not there": {Keyspaces: []string{"fruit", "vegetables"}},
	} {
		want := brock.ErrInvalid
		if o.Since == nil {
			want = brock.ErrKeyspaceNotFound
		}
		var b bytes.Buffer
		_, err := db.Backup(t.Context(), &b, o)
		wantErr(t, what, err, want)
		wantEqual(t, what+": bytes", b.Len(), 0)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = db.Backup(ctx, &bytes.Buffer{}, brock.BackupOptions{Keyspaces: []string{"fruit"}})
	wantErr(t, "cancelled", err, context.Canceled)
	for nth := 1; ; nth++ {
		faulty.Inject(faultfs.Fault{Kinds: faultfs.Write | faultfs.Create | faultfs.Sync, Nth: nth})
		_, err := db.Backup(t.Context(), &bytes.Buffer{}, brock.BackupOptions{Keyspaces: []string{"fruit"}})
		faulty.Heal()
		if err == nil {
			break
		}
	}
	if made := since(before, must2(mem.List("/store"))); len(made) > 0 {
		t.Errorf("left %q", made)
	}
}

// TestBackupOfKeyspacesCrashes ends the process while the files of a backup are there: the next
// Open removes them.
func TestBackupOfKeyspacesCrashes(t *testing.T) {
	mem := vfs.NewMem()
	o := place{mem, "/", nil}.retaining("store", "")
	db, err := brock.Open(o)
	must(t, err)
	w := newBusy(t, db, 1)
	w.steps(t, 100)
	must(t, db.Compact(t.Context()))
	want := retained(t, db, 0)
	killed, made := killedBackup(t, mem, db, brock.BackupOptions{Keyspaces: []string{"fruit"}})
	o.FS = killed
	again := opened(t, o)
	same(t, "after the crash", retained(t, again, 0), want)
	names, err := killed.List("/store")
	must(t, err)
	for _, name := range made {
		if slices.Contains(names, name) {
			t.Errorf("%s is still there", name)
		}
	}
}

// killedBackup makes a backup of the store in /store, and closes it. killed is what there would be
// if the process had ended on the way, and made are the files of it that the backup made.
func killedBackup(t *testing.T, mem *vfs.Mem, db *brock.DB, o brock.BackupOptions) (killed *vfs.Mem, made []string) {
	t.Helper()
	before := must2(mem.List("/store"))
	o.Progress = func(p brock.BackupProgress) {
		if killed == nil && p.Total > 0 {
			killed = mem.CrashClone(vfs.CrashOptions{Mode: vfs.All})
		}
	}
	must2(db.Backup(t.Context(), &bytes.Buffer{}, o))
	must(t, db.Close())
	made = since(before, must2(killed.List("/store")))
	if len(made) < 2 {
		t.Fatalf("the backup has made %q", made)
	}
	return killed, made
}
