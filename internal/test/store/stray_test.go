package store

import (
	"fmt"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/vfs"
)

// A file with a number that no store reaches is a stranger's: it stays where it is, and
// the store numbers its own files as if it were not there.
func TestStrayNumbers(t *testing.T) {
	for _, name := range []string{"9223372036854775807.val", "18446744073709551615.run", "4611686018427387904.log", "4611686018427387903.map", "MANIFEST-18446744073709551615"} {
		for _, content := range []string{"", "somebody else's"} {
			t.Run(name+" "+content, func(t *testing.T) {
				fs := vfs.NewMem()
				o := brock.Options{Dir: dir, FS: fs}
				db, err := brock.Open(o)
				must(t, err)
				set(t, db, "a=1")
				must(t, db.Close())
				writeFile(t, fs, dir+"/"+name, content)
				for i := range 3 {
					db, err := brock.Open(o)
					must(t, err)
					wantEqual(t, "contents", contents(t, db), fmt.Sprintf("a=%d", 1+i))
					set(t, db, fmt.Sprintf("a=%d", 2+i))
					must(t, db.Compact(t.Context()))
					must(t, db.Verify(t.Context(), nil))
					must(t, db.Close())
				}
				if i, err := fs.Stat(dir + "/" + name); content != "" && (err != nil || i.Size != int64(len(content))) {
					t.Errorf("the stranger's file: %+v, %v", i, err)
				}
			})
		}
	}
}
