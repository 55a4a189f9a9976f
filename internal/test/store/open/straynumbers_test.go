package open

import (
	"fmt"
	"testing"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/internal/test/kit/assert"
	"github.com/brockdb/brock/internal/test/kit/storetest"
	"github.com/brockdb/brock/vfs"
)

// A file with a number that no store reaches is a stranger's: it stays where it is, and
// the store numbers its own files as if it were not there.
func TestStrayNumbers(t *testing.T) {
	for _, name := range []string{"9223372036854775807.val", "18446744073709551615.run", "4611686018427387904.log", "4611686018427387903.map", "MANIFEST-18446744073709551615"} {
		for _, content := range []string{"", "somebody else's"} {
			t.Run(name+" "+content, func(t *testing.T) {
				fs := vfs.NewMem()
				o := brock.Options{Dir: storetest.Dir, FS: fs}
				db, err := brock.Open(o)
				assert.OK(t, err)
				storetest.Set(t, db, "a=1")
				assert.OK(t, db.Close())
				storetest.WriteFile(t, fs, storetest.Dir+"/"+name, content)
				for i := range 3 {
					db, err := brock.Open(o)
					assert.OK(t, err)
					assert.Equal(t, "contents", storetest.ShowContents(t, db), fmt.Sprintf("a=%d", 1+i))
					storetest.Set(t, db, fmt.Sprintf("a=%d", 2+i))
					assert.OK(t, db.Compact(t.Context()))
					assert.OK(t, db.Verify(t.Context(), nil))
					assert.OK(t, db.Close())
				}
				if i, err := fs.Stat(storetest.Dir + "/" + name); content != "" && (err != nil || i.Size != int64(len(content))) {
					t.Errorf("the stranger's file: %+v, %v", i, err)
				}
			})
		}
	}
}
