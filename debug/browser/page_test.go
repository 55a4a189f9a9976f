package browser_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/debug"
)

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// All views at the width of a phone and of a desk, light and dark: nothing is wider than the window,
// the browser has nothing to complain of, and each question of the first screen has its answer.
func TestViewsAtAllWidths(t *testing.T) {
	s := openShop(t, brock.Options{})
	s.load(t)
	reader, err := s.db.Snapshot()
	must(t, err)
	t.Cleanup(reader.Close)
	h := debug.Handler(s.db, debug.Title("shop"), debug.Values(), debug.Actions(), debug.Events(s.log))
	first := open(t, h, desk)
	first.until("document.querySelectorAll('.chart path.line').length > 6")
	first.view("heat")
	if *shots != "" {
		time.Sleep(20 * time.Second) // so that pictures show some minutes of work
	}
	for _, screen := range []screen{desk, darkDesk, phone, darkPhone} {
		t.Run(screen.name, func(t *testing.T) {
			tb := open(t, h, screen)
			var background string
			tb.eval("getComputedStyle(document.body).backgroundColor", &background)
			if dark := background == "rgb(17, 19, 21)"; dark != screen.dark {
				t.Errorf("background %s", background)
			}
			for _, text := range []string{"shop", "Why so large?", "Live", "Pinned", "Why slow?", "Commit", "Written to files", "Is it healthy?", "Scrub", "Damage", "Disk"} {
				tb.sees(text)
			}
			tb.until("document.querySelectorAll('.chart path.line').length > 6 && document.querySelectorAll('.treemap .box').length > 3")
			tb.until("[...document.querySelectorAll('.notes b')].some(e => e.innerText === 'History')")
			tb.sees("config/lima/00002") // over which commits conflict
			tb.fits("overview")
			tb.shoot("overview-" + screen.name)
			for _, v := range []struct{ name, hash, ready string }{
				{"keys", "keys?ks=" + b64("orders") + "&prefix=" + b64("lima/"), "document.querySelectorAll('.keys tbody tr').length === 50"},
				{"key", "keys?ks=" + b64("users") + "&from=" + b64("user/00040") + "&key=" + b64("user/00042"), "document.querySelectorAll('.detail tbody tr').length === 5"},
				{"keyspaces", "sizes", "document.querySelectorAll('.treemap .box').length >= 5"},
				{"sizes", "sizes?in=1&ks=" + b64("orders"), "document.querySelectorAll('.treemap .box').length === 6"},
				{"heat", "heat?ks=" + b64("orders"), "document.querySelectorAll('.heat-axis span').length > 4 && document.querySelector('.heat-scale i')"},
				{"files", "files", "document.querySelectorAll('.list tbody tr').length > 5 && document.querySelector('.box .dead') && document.body.innerText.includes('the base, below all others')"},
				{"events", "events", "document.querySelectorAll('.list tbody tr').length > 1 && document.body.innerText.includes('config/lima/00002')"},
			} {
				tb.view(v.hash)
				tb.until(v.ready)
				if v.name == "key" {
					tb.click(".detail input", "")
					tb.eval("[...document.querySelectorAll('.detail input')].slice(1, 3).forEach(e => e.checked || e.click())", nil)
					tb.click(".detail button", "Compare two")
					tb.until("document.querySelector('.diff .add') && document.querySelector('.diff .del')")
				}
				tb.fits(v.name)
				tb.shoot(v.name + "-" + screen.name)
			}
		})
	}
}

// Keys, names and values that are markup stay text, wherever they are shown.
func TestMarkupStaysText(t *testing.T) {
	evil := []string{
		`<img src=x onerror="window.hacked=1">`, `"><script>window.hacked=2</script>`, `javascript:window.hacked=3`, `'-window.hacked=4-'`, `</title><svg/onload=window.hacked=5>`,
		"\x00\x01\x1b[2J\x7f", "\u202egnp.exe\u2066", "\xff\xfe<b>", "a\nb\tc", "{{constructor.constructor('window.hacked=6')()}}", "\u200b\u00ad", `\x41\\`,
	}
	log := debug.NewLog()
	db := openStore(t, brock.Options{Events: log.Events(brock.Events{})})
	ks, err := db.Keyspace(evil[0])
	must(t, err)
	for _, key := range evil {
		must(t, db.Set([]byte(key), []byte(key)))
		must(t, ks.Set([]byte(key), []byte(key)))
		_ = log.NoteConflict(&brock.ConflictError{Keyspace: evil[0], Key: []byte(key)})
	}
	decode := debug.Decode("", func(v []byte) (any, error) { return map[string]string{string(v): string(v)}, nil })
	// A file that is not the store's is listed by its name, too.
	must(t, os.WriteFile(filepath.Join(db.Options().Dir, evil[0]), make([]byte, 1000), 0o600))
	tb := open(t, debug.Handler(db, debug.Title(evil[4]), debug.Values(), debug.Actions(), debug.Events(log), decode), desk)
	check := func(where string) {
		t.Helper()
		var hacked bool
		tb.eval("window.hacked !== undefined || document.querySelector('main img, main script, main b b, #title *') !== null", &hacked)
		if hacked {
			t.Errorf("%s: markup of a key became an element", where)
		}
	}
	tb.sees("<svg/onload")
	check("overview")
	for _, name := range []string{"", evil[0]} {
		tb.view("keys?ks=" + b64(name))
		tb.until(fmt.Sprintf("document.querySelectorAll('.keys tbody tr').length === %d", len(evil)))
		for _, text := range []string{evil[0], evil[1], evil[4], `\x00\x01\x1b[2J\x7f`, `\u{202e}gnp.exe\u{2066}`, `\xff\xfe<b>`, `a\x0ab\x09c`, `\u{200b}\u{ad}`, `\\x41\\\\`} {
			tb.sees(text)
		}
		check("keys")
		for i, key := range evil {
			tb.view("keys?ks=" + b64(name) + "&key=" + b64(key))
			tb.until("document.querySelectorAll('.detail tbody tr').length === 1")
			tb.click(".detail td button", "Show")
			tb.until("document.querySelectorAll('pre.value').length === 1")
			check(fmt.Sprintf("key %d", i))
		}
		for _, v := range []string{"sizes?in=1&ks=", "heat?ks="} {
			tb.view(v + b64(name))
			tb.until("document.querySelector('.treemap .box, .heat-axis span')")
			check(v)
		}
		// The row of a key leads to that key, whatever its bytes are.
		tb.view("keys?ks=" + b64(name))
		tb.until("document.querySelectorAll('.keys tbody tr').length > 1")
		tb.click(".keys a", `\xff\xfe<b>`)
		tb.until(`document.querySelector('.detail h2') && document.querySelector('.detail h2').innerText === '\\xff\\xfe<b>'`)
	}
	for _, v := range []string{"sizes", "files", "events"} {
		tb.view(v)
		tb.until("document.querySelector('main table tbody tr')")
		check(v)
	}
	// What is typed as an escape is that byte.
	tb.view("keys")
	tb.until("document.querySelector('.toolbar input')")
	tb.eval(`(() => { document.querySelector('.toolbar > input').value = '\\xff\\xfe'; document.querySelector('.toolbar').requestSubmit(); })()`, nil)
	tb.until("document.querySelectorAll('.keys tbody tr').length === 1")
	tb.sees(`\xff\xfe<b>`)
	tb.shoot("markup")
}

func TestKeysAreBrowsedBothWays(t *testing.T) {
	db := openStore(t, brock.Options{Durability: brock.Buffered})
	for i := range 170 {
		must(t, db.Set(fmt.Appendf(nil, "k%03d", i), []byte("v")))
	}
	tb := open(t, debug.Handler(db, debug.Values(), debug.Actions()), phone)
	tb.view("keys")
	rows := func(first, last string, n int) {
		t.Helper()
		tb.until(fmt.Sprintf(`(r => r.length === %d && r[0].innerText.startsWith(%q) && r[r.length-1].innerText.startsWith(%q))([...document.querySelectorAll('.keys tbody tr')])`, n, first, last))
	}
	rows("k000", "k049", 50)
	tb.click("a[aria-label=On]", "→")
	rows("k050", "k099", 50)
	tb.click("a[aria-label=Last]", "⇥")
	rows("k120", "k169", 50)
	tb.click("a[aria-label=Back]", "←")
	rows("k070", "k119", 50)
	tb.click("a[aria-label=First]", "⇤")
	rows("k000", "k049", 50)
	// A value is hidden until it is asked for, and a key goes only after a second click.
	tb.click(".keys a", "k007")
	tb.until("document.querySelectorAll('.detail tbody tr').length === 1")
	var shown int
	tb.eval("document.querySelectorAll('pre.value').length", &shown)
	if shown != 0 {
		t.Error("the value is shown before it was asked for")
	}
	tb.click(".detail td button", "Show")
	tb.until("document.querySelector('pre.value')?.innerText === 'v'")
	tb.click(".detail button.danger", "Delete")
	if found, err := db.Has([]byte("k007")); !found || err != nil {
		t.Fatalf("one click has deleted the key (%v)", err)
	}
	tb.click(".detail button.danger", "Really")
	rows("k000", "k050", 50)
	if found, err := db.Has([]byte("k007")); found || err != nil {
		t.Errorf("the key is there: %v", err)
	}
}

func TestTenThousandKeyspaces(t *testing.T) {
	n := 10000
	if testing.Short() {
		n = 1000
	}
	db := openStore(t, brock.Options{InMemory: true}) // each keyspace is an edit that is synced
	for i := range n {
		_, err := db.Keyspace(fmt.Sprintf("tenant-%05d", i))
		must(t, err)
	}
	ks, err := db.Keyspace("tenant-00777")
	must(t, err)
	must(t, ks.Set([]byte("here"), bytes.Repeat([]byte("x"), 1000)))
	tb := open(t, debug.Handler(db), desk)
	tb.view("keys")
	tb.click(".picker", "default")
	tb.until("document.querySelectorAll('.option').length === 51")
	tb.click(".option.more", "more of")
	tb.until("document.querySelectorAll('.option').length === 101")
	tb.eval("(e => { e.value = '00777'; e.dispatchEvent(new Event('input')); })(document.querySelector('.panel input'))", nil)
	tb.until("document.querySelectorAll('.option').length === 1")
	tb.click(".option", "tenant-00777")
	tb.sees("here")
	tb.view("sizes")
	tb.until("document.querySelectorAll('.list tbody tr').length > 0 || document.body.innerText.includes('measured')")
	tb.shoot("keyspaces-many")
}

func TestEmptyStore(t *testing.T) {
	tb := open(t, debug.Handler(openStore(t, brock.Options{})), phone)
	tb.sees("Nothing stands out.")
	tb.sees("writers never waited")
	tb.fits("overview")
	tb.shoot("empty-overview")
	tb.view("keys")
	tb.sees("There are no keys here.")
	tb.view("sizes")
	tb.sees("The store is empty.")
	tb.view("files")
	tb.until("document.querySelectorAll('.list tbody tr').length > 0")
	tb.view("events")
	tb.sees("does not keep the events")
	tb.view("heat")
	tb.sees("reads leave no trace")
	tb.fits("heat")
}

func TestEncryptedStoreWithoutValues(t *testing.T) {
	db := openStore(t, brock.Options{Keys: brock.StaticKey(bytes.Repeat([]byte{7}, 32))})
	must(t, db.Set([]byte("k"), []byte("a secret")))
	tb := open(t, debug.Handler(db), desk)
	tb.sees("encrypted")
	tb.view("keys?key=" + b64("k"))
	tb.sees("Values are hidden")
	if strings.Contains(tb.text(), "secret") {
		t.Error("the value is shown")
	}
}

func TestStoreThatIsClosed(t *testing.T) {
	db := openStore(t, brock.Options{})
	must(t, db.Set([]byte("k"), []byte("v")))
	h := debug.Handler(db)
	tb := open(t, h, phone)
	tb.sees("Nothing stands out.")
	must(t, db.Close())
	tb.sees("The store is closed. What is below is from before that.")
	tb.sees("Why so large?")
	tb.view("keys")
	tb.sees("the store is closed")
	tb.fits("keys")
	late := open(t, h, desk) // a page that is opened now
	late.sees("The store is closed.")
	late.until("document.querySelector('.cards').hidden && document.getElementById('banner').hidden") // nothing is known
	late.shoot("closed")
}

// A store that another process writes: the page says where latencies are known.
func TestFollower(t *testing.T) {
	writer := openStore(t, brock.Options{})
	must(t, writer.Set([]byte("k"), []byte("v")))
	db := openStore(t, brock.Options{Dir: writer.Options().Dir, Mode: brock.Follow})
	tb := open(t, debug.Handler(db, debug.Actions()), desk)
	tb.sees("follows its writer")
	tb.sees("Latencies, stalls and compactions are known there")
	must(t, writer.Set([]byte("news"), []byte("v")))
	tb.view("keys")
	tb.sees("news")
	tb.view("")
	tb.sees(" left")
	tb.click(".act button", "Verify")
	tb.sees("every checksum is right")
	tb.shoot("follower")
}
