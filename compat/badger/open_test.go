package badger

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	up "github.com/dgraph-io/badger/v4"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/compat/badger/options"
)

func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	db, err := Open(quiet(dir))
	check(t, err)
	set(t, db, "a=1")
	_, err = Open(quiet(dir))
	if !errors.Is(err, brock.ErrLocked) || !strings.Contains(err.Error(), "Cannot acquire directory lock") {
		t.Errorf("open twice: %v", err)
	}
	check(t, db.Sync())
	check(t, db.Close())
	db = openDB(t, quiet(dir))
	wantText(t, "pairs", dump(t, db), "a=1")
	if db.Opts().Dir != dir {
		t.Error("Opts")
	}
}

// ValueDir may be Dir in another spelling, or another directory.
func TestValueDir(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	check(t, os.Mkdir("real", 0o700))
	check(t, os.Symlink("real", "link"))
	for i, names := range [][2]string{
		{"real", "./real"}, {"./real/", "real"}, {filepath.Join(dir, "real"), "real"}, {"link", "real"}, {"real", ""}, {"real", "real/../link"},
	} {
		db, err := Open(quiet(names[0]).WithValueDir(names[1]))
		check(t, err)
		set(t, db, fmt.Sprintf("%d=v", i))
		check(t, db.Close())
	}
	db := openDB(t, quiet("real"))
	wantText(t, "pairs", dump(t, db), "0=v 1=v 2=v 3=v 4=v 5=v")

	two := quiet("keys").WithValueDir("values")
	db, err := Open(two)
	check(t, err)
	set(t, db, "a=1")
	check(t, db.Close())
	if names, err := os.ReadDir("values"); err != nil || len(names) == 0 {
		t.Errorf("values: %v, %v", names, err)
	}
	wantText(t, "pairs", dump(t, openDB(t, two)), "a=1")
}

// Files of other programs in the directory: the store lies in a subdirectory, and is found there again.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other.txt")
	check(t, os.WriteFile(other, []byte("x"), 0o600))
	for i := range 2 {
		db, err := Open(quiet(dir))
		check(t, err)
		set(t, db, fmt.Sprintf("%d=v", i))
		check(t, db.Close())
	}
	check(t, os.Remove(other))
	db := openDB(t, quiet(dir))
	wantText(t, "pairs", dump(t, db), "0=v 1=v")

	// A store that has its directory stays there, whatever comes beside it.
	dir = t.TempDir()
	db, err := Open(quiet(dir))
	check(t, err)
	set(t, db, "a=1")
	check(t, db.Close())
	check(t, os.WriteFile(filepath.Join(dir, "other.txt"), []byte("x"), 0o600))
	wantText(t, "pairs", dump(t, openDB(t, quiet(dir))), "a=1")
}

// A store of Badger itself is refused and left alone.
func TestStoreOfBadgerIsRefused(t *testing.T) {
	dir := t.TempDir()
	theirs, err := up.Open(up.DefaultOptions(dir).WithLogger(nil))
	check(t, err)
	check(t, theirs.Update(func(txn *up.Txn) error { return txn.Set([]byte("a"), []byte("1")) }))
	check(t, theirs.Close())
	before := listDir(t, dir)
	if _, err := Open(quiet(dir)); !errors.Is(err, brock.ErrForeign) || !strings.Contains(err.Error(), "holds files of Badger") {
		t.Errorf("Open: %v", err)
	}
	wantText(t, "files", listDir(t, dir), before)
}

func listDir(t *testing.T, dir string) string {
	entries, err := os.ReadDir(dir)
	check(t, err)
	return fmt.Sprint(entries)
}

func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(quiet(filepath.Join(dir, "absent")).WithReadOnly(true)); err == nil || !strings.Contains(err.Error(), "Cannot find directory") {
		t.Errorf("absent directory: %v", err)
	}
	if _, err := Open(quiet(dir).WithReadOnly(true)); !errors.Is(err, brock.ErrNotExist) {
		t.Errorf("absent store: %v", err)
	}
	db, err := Open(quiet(dir))
	check(t, err)
	set(t, db, "a=1")
	if _, err := Open(quiet(dir).WithReadOnly(true)); !errors.Is(err, brock.ErrLocked) {
		t.Errorf("while it is written: %v", err)
	}
	if _, err := Open(quiet(dir).WithBypassLockGuard(true)); !errors.Is(err, brock.ErrLocked) {
		t.Errorf("a second writer: %v", err)
	}
	// BypassLockGuard: it is read while it is written, as of the last sync before Open.
	check(t, db.Sync())
	follower := openDB(t, quiet(dir).WithReadOnly(true).WithBypassLockGuard(true))
	wantText(t, "followed", dump(t, follower), "a=1")
	check(t, db.Close())

	one, two := openDB(t, quiet(dir).WithReadOnly(true)), openDB(t, quiet(dir).WithReadOnly(true))
	for _, db := range []*DB{one, two, follower} {
		wantText(t, "pairs", dump(t, db), "a=1")
		// As in Badger, an update of a read-only store is a read-only transaction.
		wantErr(t, "Update", db.Update(func(txn *Txn) error { return txn.Set([]byte("b"), nil) }), ErrReadOnlyTxn)
		txn := db.NewTransaction(true)
		wantErr(t, "Set", txn.Set([]byte("b"), nil), ErrReadOnlyTxn)
		check(t, txn.Commit())
		wantErr(t, "WriteBatch", db.NewWriteBatch().Set([]byte("b"), nil), ErrReadOnlyTxn)
		wantErr(t, "GC", db.RunValueLogGC(0.5), ErrGCInReadOnlyMode)
		check(t, db.Sync())
		check(t, db.VerifyChecksum())
		wantPanic(t, "DropAll", "Attempting to drop data in read-only mode.", func() { _ = db.DropAll() })
		wantPanic(t, "DropPrefix", "Attempting to drop data in read-only mode.", func() { _ = db.DropPrefix([]byte("a")) })
		wantPanic(t, "Flatten", "Cannot flatten in read-only mode.", func() { _ = db.Flatten(1) })
		wantPanic(t, "GetSequence", "Cannot use GetSequence in read-only mode.", func() { _, _ = db.GetSequence([]byte("a"), 1) })
		wantErr(t, "Add", db.GetMergeOperator([]byte("a"), nil, 0).Add(nil), ErrReadOnlyTxn)
	}
	check(t, os.MkdirAll(filepath.Join(dir, "m"), 0o700))
	m, err := OpenManaged(quiet(filepath.Join(dir, "m")))
	check(t, err)
	setAt(t, m, 3, "a=3")
	check(t, m.Close())
	m = openManaged(t, quiet(filepath.Join(dir, "m")).WithReadOnly(true))
	wantText(t, "managed", dump(t, m), "a=3")
	if m.MaxVersion() != 3 {
		t.Error("MaxVersion")
	}
}

func TestInMemory(t *testing.T) {
	for _, opt := range []Options{memory().WithDir("x"), memory().WithValueDir("x")} {
		if _, err := Open(opt); err == nil {
			t.Error("InMemory with a directory")
		}
	}
	db := openDB(t, memory().WithSyncWrites(true))
	set(t, db, "a=1")
	check(t, db.Sync())
	wantErr(t, "GC", db.RunValueLogGC(0.5), ErrGCInMemoryMode)
}

// A store is managed or not, from its making on. Badger opens one in both ways.
func TestModeOfStore(t *testing.T) {
	plain, managed := t.TempDir(), t.TempDir()
	db, err := Open(quiet(plain))
	check(t, err)
	set(t, db, "a=1")
	check(t, db.Close())
	db, err = OpenManaged(quiet(managed))
	check(t, err)
	check(t, db.Close())
	for _, ro := range []bool{false, true} {
		if _, err := OpenManaged(quiet(plain).WithReadOnly(ro)); !errors.Is(err, errMode) {
			t.Errorf("a plain store as a managed one: %v", err)
		}
		if _, err := Open(quiet(managed).WithReadOnly(ro)); !errors.Is(err, errMode) {
			t.Errorf("a managed store as a plain one: %v", err)
		}
	}
	wantText(t, "pairs", dump(t, openDB(t, quiet(plain))), "a=1")
	openManaged(t, quiet(managed))
}

func TestEncryption(t *testing.T) {
	key := func(n int, b byte) []byte { return bytes.Repeat([]byte{b}, n) }
	for _, n := range []int{1, 15, 33} {
		_, err := Open(quiet(t.TempDir()).WithEncryptionKey(key(n, 'a')))
		wantErr(t, "length", err, ErrInvalidEncryptionKey)
	}
	for _, n := range []int{16, 24, 32} {
		dir := t.TempDir()
		db, err := Open(quiet(dir).WithEncryptionKey(key(n, 'a')))
		check(t, err)
		set(t, db, "secret-key=secret-value")
		check(t, db.Flatten(1))
		check(t, db.Close())
		for _, other := range [][]byte{nil, key(n, 'b'), key(48-n, 'a')} {
			if bytes.Equal(other, key(n, 'a')) {
				continue
			}
			_, err = Open(quiet(dir).WithEncryptionKey(other))
			wantErr(t, "other key", err, ErrEncryptionKeyMismatch)
		}
		files, err := os.ReadDir(dir)
		check(t, err)
		for _, f := range files {
			if raw, _ := os.ReadFile(filepath.Join(dir, f.Name())); bytes.Contains(raw, []byte("secret")) {
				t.Errorf("%s is plain", f.Name())
			}
		}
		wantText(t, "pairs", dump(t, openDB(t, quiet(dir).WithEncryptionKey(key(n, 'a')))), "secret-key=secret-value")
	}
	dir := t.TempDir()
	db, err := Open(quiet(dir))
	check(t, err)
	check(t, db.Close())
	_, err = Open(quiet(dir).WithEncryptionKey(key(32, 'a')))
	wantErr(t, "key of a plain store", err, ErrEncryptionKeyMismatch)
	db = openDB(t, memory().WithEncryptionKey(key(32, 'a')))
	set(t, db, "a=1")
}

// The data key is rotated at Open and by RunValueLogGC, when its time has come.
func TestKeyRotation(t *testing.T) {
	opt := quiet(t.TempDir()).WithEncryptionKey(bytes.Repeat([]byte{1}, 32))
	rotations := func(db *DB) string {
		stored, err := db.getState("rotated")
		check(t, err)
		return fmt.Sprintf("%x", stored[min(8, len(stored)):])
	}
	db, err := Open(opt)
	check(t, err)
	wantText(t, "new", rotations(db), "") // the first version is for a user
	set(t, db, "a=1")
	check(t, db.Close())
	db, err = Open(opt)
	check(t, err)
	wantText(t, "young", rotations(db), "0000000000000000")
	check(t, db.Close())
	opt = opt.WithEncryptionKeyRotationDuration(time.Nanosecond)
	n := 40 // more often, by two for each, than there may be data keys
	if testing.Short() {
		n = 3
	}
	for i := range n {
		db, err = Open(opt)
		check(t, err)
		set(t, db, fmt.Sprintf("%d=v", i))
		if err := db.RunValueLogGC(0.5); err != nil && err != ErrNoRewrite {
			t.Fatal(err)
		}
		wantText(t, "rotations", rotations(db), fmt.Sprintf("%016x", 2*i+2))
		check(t, db.Close())
	}
	db = openDB(t, opt)
	check(t, db.View(func(txn *Txn) error {
		wantText(t, "pairs", get(t, txn, "a")+get(t, txn, fmt.Sprint(n-1)), "1v")
		return nil
	}))
}

func TestExternalMagic(t *testing.T) {
	for _, managed := range []bool{false, true} {
		opt := quiet(t.TempDir()).WithExternalMagic(7)
		opt.managedTxns = managed
		for range 2 {
			db, err := Open(opt)
			check(t, err)
			check(t, db.Close())
		}
		for _, other := range []uint16{0, 8} {
			if _, err := Open(opt.WithExternalMagic(other)); err == nil {
				t.Errorf("opened with magic %d", other)
			}
		}
		opt = quiet(t.TempDir())
		db := openDB(t, opt)
		set(t, db, "a=1")
		check(t, db.Close())
		if _, err := Open(opt.WithExternalMagic(7)); err == nil {
			t.Error("a store without a number got one")
		}
	}
}

func TestOptionsThatBadgerRefuses(t *testing.T) {
	dir := t.TempDir()
	for i, opt := range []Options{
		quiet(dir).WithNumCompactors(1), quiet(dir).WithVLogPercentile(1.1), quiet(dir).WithVLogPercentile(-1),
		quiet(dir).WithValueThreshold(1<<20 + 1), quiet(dir).WithMemTableSize(1 << 20), quiet(""),
	} {
		if _, err := Open(opt); err == nil {
			t.Errorf("options %d: opened", i)
		}
	}
	for _, size := range []int64{0, 1<<20 - 1, 2 << 30} {
		_, err := Open(quiet(dir).WithValueLogFileSize(size))
		wantErr(t, "ValueLogFileSize", err, ErrValueLogSize)
	}
	// Badger panics, as it needs a cache then. Brock needs none.
	check(t, openDB(t, quiet(dir).WithBlockCacheSize(0)).Sync())
}

// The options have Badger's fields, builders and defaults.
func TestOptionsAreThoseOfBadger(t *testing.T) {
	ours, theirs := reflect.ValueOf(DefaultOptions("x")), reflect.ValueOf(up.DefaultOptions("x"))
	fields := 0
	for i := range theirs.NumField() {
		f := theirs.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		fields++
		mine, ok := ours.Type().FieldByName(f.Name)
		if !ok || mine.Type.Kind() != f.Type.Kind() {
			t.Errorf("field %s: %v, want %v", f.Name, mine.Type, f.Type)
			continue
		}
		if f.Name != "Logger" && fmt.Sprint(ours.FieldByName(f.Name)) != fmt.Sprint(theirs.Field(i)) {
			t.Errorf("default of %s: %v, want %v", f.Name, ours.FieldByName(f.Name), theirs.Field(i))
		}
	}
	for i := range theirs.NumMethod() {
		m := theirs.Type().Method(i)
		mine, ok := ours.Type().MethodByName(m.Name)
		if !ok {
			t.Errorf("no method %s", m.Name)
			continue
		}
		if mine.Type.NumIn() != m.Type.NumIn() || m.Type.NumIn() == 2 && mine.Type.In(1).Kind() != m.Type.In(1).Kind() {
			t.Errorf("method %s: %v, want %v", m.Name, mine.Type, m.Type)
		}
	}
	if fields < 30 {
		t.Errorf("%d fields", fields)
	}
}

// Each builder sets its field, and no other.
func TestBuilders(t *testing.T) {
	base := Options{}
	v := reflect.ValueOf(base)
	tested := 0
	for i := range v.NumMethod() {
		m := v.Type().Method(i)
		name, ok := strings.CutPrefix(m.Name, "With")
		if !ok || name == "LoggingLevel" {
			continue
		}
		if name == "ExternalMagic" {
			name = "ExternalMagicVersion"
		}
		arg := reflect.New(m.Type.In(1)).Elem()
		switch arg.Kind() {
		case reflect.Bool:
			arg.SetBool(true)
		case reflect.Int, reflect.Int64:
			arg.SetInt(5)
		case reflect.Uint16, reflect.Uint32:
			arg.SetUint(5)
		case reflect.Float64:
			arg.SetFloat(0.5)
		case reflect.String:
			arg.SetString("x")
		case reflect.Slice:
			arg.SetBytes([]byte("x"))
		case reflect.Interface:
			arg.Set(reflect.ValueOf(newDefaultLog(INFO)))
		}
		got := m.Func.Call([]reflect.Value{v, arg})[0]
		for i := range got.NumField() {
			f := got.Type().Field(i)
			if isZero := got.Field(i).IsZero(); f.Name == name && isZero || f.Name != name && !isZero {
				t.Errorf("%s: field %s is %v", m.Name, f.Name, got.Field(i))
			}
		}
		tested++
	}
	if tested < 37 {
		t.Errorf("%d builders", tested)
	}
	if _, ok := base.WithLoggingLevel(ERROR).Logger.(*defaultLog); !ok {
		t.Error("WithLoggingLevel")
	}
	if LSMOnlyOptions("x").Dir != "x" {
		t.Error("LSMOnlyOptions")
	}
}

func TestFromSuperFlag(t *testing.T) {
	const flags = "NumGoroutines=4; syncwrites=true; memtablesize=1048576; valuelogmaxentries=7; vlogpercentile=0.5; dir=y; numversionstokeep=3"
	ours, theirs := DefaultOptions("x").FromSuperFlag(flags), up.DefaultOptions("x").FromSuperFlag(flags)
	if ours.NumGoroutines != 4 || !ours.SyncWrites || ours.Dir != "y" || ours.VLogPercentile != 0.5 || ours.ValueLogMaxEntries != 7 {
		t.Errorf("%+v", ours)
	}
	for i := range reflect.TypeFor[up.Options]().NumField() {
		f := reflect.TypeFor[up.Options]().Field(i)
		mine, them := reflect.ValueOf(ours).FieldByName(f.Name), reflect.ValueOf(theirs).FieldByName(f.Name)
		if f.IsExported() && f.Name != "Logger" && fmt.Sprint(mine) != fmt.Sprint(them) {
			t.Errorf("%s: %v, want %v", f.Name, mine, them)
		}
	}
	for _, c := range []struct {
		flag  string
		type_ options.CompressionType
		level int
	}{{"compression=zstd:5", options.ZSTD, 5}, {"compression=zstd", options.ZSTD, 3}, {"compression=snappy", options.Snappy, 0}, {"compression=none", options.None, 0}, {"compression=2", options.ZSTD, 1}} {
		if opt := DefaultOptions("x").FromSuperFlag(c.flag); opt.Compression != c.type_ || opt.ZSTDCompressionLevel != c.level {
			t.Errorf("%s: %v, level %d", c.flag, opt.Compression, opt.ZSTDCompressionLevel)
		}
	}
}
