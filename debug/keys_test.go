package debug_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/debug"
)

func TestKeysAreWalkedBothWays(t *testing.T) {
	db := openStore(t, brock.Options{})
	set(t, db, "", "empty", "a/1", "", "a/2", "", "a/3", "", "a/4", "", "a/5", "", "b", "")
	ks := makeKeyspace(t, db, "other")
	set(t, ks, "z", "")
	h := debug.Handler(db)
	for query, want := range map[string]string{
		"limit=3":                                         "[ a/1 a/2] false true",
		"limit=3&from=" + b64("a/2\x00"):                  "[a/3 a/4 a/5] true true",
		"limit=3&from=" + b64("a/5\x00"):                  "[b] true false",
		"limit=3&before=" + b64("a/4"):                    "[a/1 a/2 a/3] true true",
		"limit=3&before=" + b64("a/2"):                    "[ a/1] false true",
		"limit=3&end=last":                                "[a/4 a/5 b] true false",
		"limit=2&prefix=" + b64("a/"):                     "[a/1 a/2] false true",
		"limit=2&end=last&prefix=" + b64("a/"):            "[a/4 a/5] true false",
		"prefix=" + b64("a/") + "&before=" + b64("a/3"):   "[a/1 a/2] false true",
		"prefix=" + b64("a/") + "&from=" + b64("a/5\x00"): "[] true false",
		"prefix=" + b64("c"):                              "[] false false",
		"before=" + b64(""):                               "[] true false",
		"ks=" + b64("other"):                              "[z] false false",
	} {
		var p keyPage
		need(t, h, "keys?"+query, &p)
		if got := p.names(t); got != want {
			t.Errorf("keys?%s: %s, want %s", query, got, want)
		}
	}
}

// Keys are any bytes, and come back as they are.
func TestKeysOfAnyBytes(t *testing.T) {
	db := openStore(t, brock.Options{})
	keys := []string{"\x00", "\x01\x02\x1b[31m", "\"quoted\"\\", "<script>alert(1)</script>", "\u202egnp.exe", "\xff\xfe\x80", "日本語"}
	for _, k := range keys {
		set(t, db, k, k)
	}
	h := debug.Handler(db, debug.Values())
	var p keyPage
	need(t, h, "keys", &p)
	found := make(map[string]bool)
	for _, k := range p.Keys {
		found[unb64(t, k.Key)] = true
	}
	for _, k := range keys {
		var v struct{ Data string }
		need(t, h, "value?key="+b64(k), &v)
		if !found[k] || unb64(t, v.Data) != k {
			t.Errorf("key %q: listed %v, value %q", k, found[k], v.Data)
		}
	}
}

// Large keys fill a page sooner than its limit, so an answer is bounded in bytes, too.
func TestPageOfLargeKeysIsBounded(t *testing.T) {
	db := openStore(t, brock.Options{})
	for i := range 5 {
		set(t, db, fmt.Sprint(i)+strings.Repeat("k", 400_000), "")
	}
	h := debug.Handler(db)
	var got []string
	from, pages := "", 0
	for more := true; more; pages++ {
		var p keyPage
		need(t, h, "keys"+from, &p)
		if len(p.Keys) > 2 {
			t.Fatalf("%d keys of 400 KB in one answer", len(p.Keys))
		}
		for _, k := range p.Keys {
			got = append(got, unb64(t, k.Key)[:1])
		}
		from, more = "?from="+b64(unb64(t, p.Keys[len(p.Keys)-1].Key)+"\x00"), p.Behind
	}
	if fmt.Sprint(got) != "[0 1 2 3 4]" || pages != 3 {
		t.Errorf("%v in %d pages", got, pages)
	}
}

// What the store has noted of times tells by when a version was committed.
func TestHistoryHasTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openStore(t, brock.Options{InMemory: true, KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: math.MaxInt64}}})
		for i := range 3 {
			set(t, db, "k", fmt.Sprint(i))
			if err := db.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		set(t, db, "k", "new") // no time is noted of it
		var p struct {
			Versions []struct{ Version, By int64 }
		}
		need(t, debug.Handler(db), "history?key="+b64("k"), &p)
		if len(p.Versions) != 4 || p.Versions[0].By != 0 {
			t.Fatalf("%+v", p.Versions)
		}
		for i, v := range p.Versions[1:] {
			if off := time.UnixMilli(v.By).Sub(time.Now().Add(-time.Duration(i+1) * time.Hour)); off < 0 || off > 2*time.Second {
				t.Errorf("version %d: by %v, %v after its commit", v.Version, time.UnixMilli(v.By), off)
			}
		}
	})
}

func TestHistoryIsPaged(t *testing.T) {
	db := openStore(t, brock.Options{KeyspaceDefaults: brock.KeyspaceOptions{Versions: brock.Retention{Age: math.MaxInt64}}})
	for i := range 5 {
		set(t, db, "k", strings.Repeat("x", i))
	}
	if err := db.Delete([]byte("k")); err != nil {
		t.Fatal(err)
	}
	h := debug.Handler(db, debug.Values())
	var p struct {
		Versions []keyRow
		More     bool
	}
	need(t, h, "history?limit=4&key="+b64("k"), &p)
	if len(p.Versions) != 4 || !p.More || !p.Versions[0].Deleted || p.Versions[1].Size != 4 {
		t.Fatalf("%+v", p)
	}
	last := p.Versions[3]
	need(t, h, fmt.Sprintf("history?limit=4&key=%s&before=%d", b64("k"), last.Version), &p)
	if len(p.Versions) != 2 || p.More || p.Versions[1].Size != 0 {
		t.Fatalf("%+v", p)
	}
	// Each version has its value, and what is not kept says so.
	var v struct {
		Data    string
		Version uint64
	}
	need(t, h, fmt.Sprintf("value?key=%s&version=%d", b64("k"), last.Version), &v)
	if got := unb64(t, v.Data); got != strings.Repeat("x", int(last.Size)) || v.Version != last.Version {
		t.Errorf("%q of version %d", got, v.Version)
	}
	refuse(t, h, fmt.Sprintf("value?key=%s&version=%d", b64("k"), last.Version+1000), http.StatusGone, "gone")
	refuse(t, h, "value?key="+b64("k"), http.StatusNotFound, "absent")
	// Keys at an older version.
	var keys keyPage
	need(t, h, fmt.Sprintf("keys?at=%d", last.Version), &keys)
	if len(keys.Keys) != 1 || keys.Keys[0].Version != last.Version || keys.Version != last.Version {
		t.Errorf("%+v", keys)
	}
}

func TestValuesAreHiddenUnlessAskedFor(t *testing.T) {
	db := openStore(t, brock.Options{})
	secret := "the secret of the store"
	set(t, db, "k", secret)
	decoded := false
	decode := debug.Decode("", func(v []byte) (any, error) { decoded = true; return string(v), nil })
	h := debug.Handler(db, decode)
	refuse(t, h, "value?key="+b64("k"), http.StatusForbidden, "hidden")
	for _, name := range names {
		var raw json.RawMessage
		ask(t, h, name, &raw)
		if strings.Contains(string(raw), secret) || strings.Contains(string(raw), b64(secret)) {
			t.Errorf("%s tells the value: %s", name, raw)
		}
	}
	if decoded {
		t.Error("a decoder was called")
	}
}

func TestValueInParts(t *testing.T) {
	db := openStore(t, brock.Options{})
	value := strings.Repeat("0123456789", 2000)
	set(t, db, "k", value)
	h := debug.Handler(db, debug.Values())
	var got strings.Builder
	for got.Len() < len(value) {
		var v struct {
			Data         string
			Offset, Size int64
		}
		need(t, h, fmt.Sprintf("value?key=%s&offset=%d&limit=7000", b64("k"), got.Len()), &v)
		part := unb64(t, v.Data)
		if v.Size != int64(len(value)) || v.Offset != int64(got.Len()) || part == "" || len(part) > 7000 {
			t.Fatalf("offset %d of %d, %d bytes", v.Offset, v.Size, len(part))
		}
		got.WriteString(part)
	}
	if got.String() != value {
		t.Error("the parts are not the value")
	}
	var v struct{ Data string }
	need(t, h, fmt.Sprintf("value?key=%s&offset=%d", b64("k"), len(value)+5), &v)
	if v.Data != "" {
		t.Errorf("behind the end: %q", v.Data)
	}
}

func TestValueTooLargeForThePage(t *testing.T) {
	db := openStore(t, brock.Options{})
	set(t, db, "k", strings.Repeat("x", 16<<20+1))
	refuse(t, debug.Handler(db, debug.Values()), "value?key="+b64("k"), http.StatusBadRequest, "invalid")
}

func TestDecoders(t *testing.T) {
	db := openStore(t, brock.Options{})
	ks := makeKeyspace(t, db, "users")
	set(t, db, "num/1", "42", "num/x/1", "43", "bad/1", "?", "panics/1", "!", "odd/1", "o", "large/1", "l", "plain", "p", "changes/1", "abc")
	set(t, ks, "num/1", "44")
	h := debug.Handler(db, debug.Values(),
		debug.Decode("num/", func(v []byte) (any, error) { return map[string]string{"n": string(v)}, nil }),
		debug.Decode("num/x/", func(v []byte) (any, error) { return []string{string(v)}, nil }),
		debug.DecodeIn("users", "", func(v []byte) (any, error) { return "user " + string(v), nil }),
		debug.Decode("bad/", func([]byte) (any, error) { return nil, errors.New("no number") }),
		debug.Decode("panics/", func([]byte) (any, error) { panic("out of tune") }),
		debug.Decode("odd/", func([]byte) (any, error) { return map[struct{ A int }]int{{1}: 2}, nil }),
		debug.Decode("large/", func([]byte) (any, error) { return strings.Repeat("x", 1<<20), nil }),
		debug.Decode("changes/", func(v []byte) (any, error) { clear(v); return true, nil }),
		debug.Decode("plain", nil))
	for query, want := range map[string]string{
		"key=" + b64("num/1"):                         `{"n":"42"} `,
		"key=" + b64("num/x/1"):                       `["43"] `,
		"key=" + b64("num/1") + "&ks=" + b64("users"): `"user 44" `,
		"key=" + b64("bad/1"):                         ` no number`,
		"key=" + b64("panics/1"):                      ` the decoder panicked: out of tune`,
		"key=" + b64("odd/1"):                         `"map[{A:1}:2]" `,
		"key=" + b64("large/1"):                       ` what the decoder returned is above 262144 bytes`,
		"key=" + b64("changes/1"):                     `true `,
		"key=" + b64("plain"):                         ` `,
	} {
		var v struct {
			Decoded   json.RawMessage
			Undecoded string
			Data      string
		}
		need(t, h, "value?"+query, &v)
		if got := string(v.Decoded) + " " + v.Undecoded; got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
		if strings.Contains(query, b64("changes/1")) && unb64(t, v.Data) != "abc" {
			t.Error("a decoder has changed the value that is shown")
		}
	}
}

func TestTenThousandKeyspaces(t *testing.T) {
	t.Parallel()
	n := 10000
	if testing.Short() {
		n = 1000
	}
	db := openStore(t, brock.Options{InMemory: true}) // each keyspace is an edit that is synced
	for i := range n {
		makeKeyspace(t, db, fmt.Sprintf("tenant-%05d", i))
	}
	set(t, makeKeyspace(t, db, "tenant-00777"), "k", strings.Repeat("x", 1000))
	h := debug.Handler(db)
	type page struct {
		Keyspaces []struct {
			Name  string
			Bytes int64
		}
		Total, Measured int
		More            bool
	}
	seen, after := 0, ""
	for more := true; more; {
		var p page
		need(t, h, "keyspaces?limit=200"+after, &p)
		if p.Total != n+1 || len(p.Keyspaces) > 200 {
			t.Fatalf("%d of %d in one page", len(p.Keyspaces), p.Total)
		}
		seen += len(p.Keyspaces)
		after, more = "&after="+p.Keyspaces[len(p.Keyspaces)-1].Name, p.More
	}
	if seen != n+1 {
		t.Errorf("%d keyspaces in all pages, want %d", seen, n+1)
	}
	var p page
	need(t, h, "keyspaces?contains="+b64("00777"), &p)
	if p.Total != 1 || unb64(t, p.Keyspaces[0].Name) != "tenant-00777" || p.Keyspaces[0].Bytes == 0 {
		t.Errorf("%+v", p)
	}
	// By size it looks at as many as the time allows, and says at how many.
	p = page{}
	need(t, h, "keyspaces?by=size&limit=3", &p)
	if len(p.Keyspaces) != 3 || !p.More || p.Measured < 3 || p.Measured > p.Total {
		t.Errorf("%+v", p)
	}
	if p.Measured == p.Total && unb64(t, p.Keyspaces[0].Name) != "tenant-00777" {
		t.Errorf("the largest is %q", unb64(t, p.Keyspaces[0].Name))
	}
	var keys keyPage
	need(t, h, "keys?ks="+b64("tenant-00777"), &keys)
	if len(keys.Keys) != 1 {
		t.Errorf("%+v", keys)
	}
}

type sizePage struct {
	Prefix         string
	Entries, Bytes int64
	Parts          []struct {
		Prefix         string
		Entries, Bytes int64
		Key            bool
	}
}

func TestSizesByPrefix(t *testing.T) {
	db := openStore(t, brock.Options{})
	set(t, db, "app/log/1", strings.Repeat("x", 5000), "app/log/2", strings.Repeat("x", 5000), "app/user/1", "xy", "app/user/2", "xy", "app/one", "1")
	for i := range 300 { // more than have a part of their own: these are cut by bytes
		set(t, makeKeyspace(t, db, "many"), fmt.Sprintf("k:%03d", i), "v")
	}
	set(t, makeKeyspace(t, db, "ends"), "\xff\xff", "1", "\xff\xff\xff", "2", "", "3")
	for _, flush := range []bool{false, true} {
		if flush {
			if err := db.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		h := debug.Handler(db)
		for query, want := range map[string]string{
			"":                          `"app/": ["app/log/" 2 false] ["app/one" 1 true] ["app/user/" 2 false]`,
			"prefix=" + b64("app/user"): `"app/user/": ["app/user/1" 1 true] ["app/user/2" 1 true]`,
			"prefix=" + b64("none"):     `"none":`,
			"ks=" + b64("many"):         `"k:": ["k:0" 100 false] ["k:1" 100 false] ["k:2" 100 false]`,
			"ks=" + b64("ends"):         `"": ["" 1 true] ["\xff\xff" 2 false]`,
			"ks=" + b64("ends") + "&prefix=" + b64("\xff"): `"\xff\xff": ["\xff\xff" 1 true] ["\xff\xff\xff" 1 true]`,
		} {
			var p sizePage
			need(t, h, "sizes?"+query, &p)
			got := fmt.Sprintf("%q:", unb64(t, p.Prefix))
			sum := int64(0)
			for _, c := range p.Parts {
				got += fmt.Sprintf(" [%q %d %v]", unb64(t, c.Prefix), c.Entries, c.Key)
				sum += c.Entries
			}
			// Estimates of so few keys are exact in memory; in files they are of pages.
			if !flush && got != want {
				t.Errorf("sizes?%s: %s, want %s", query, got, want)
			}
			if !flush && sum != p.Entries {
				t.Errorf("sizes?%s: the parts have %d entries, all have %d", query, sum, p.Entries)
			}
		}
		var p sizePage
		need(t, h, "sizes?prefix="+b64("app/"), &p)
		if len(p.Parts) != 3 || p.Parts[0].Bytes < 8*p.Parts[2].Bytes {
			t.Errorf("flushed %v: %+v", flush, p)
		}
	}
}

func TestShapeTellsHistory(t *testing.T) {
	db := openStore(t, brock.Options{})
	ks := makeKeyspace(t, db, "kept", brock.KeyspaceOptions{Versions: brock.Retention{Versions: 3}})
	for range 3 {
		for i := range 10 {
			set(t, ks, fmt.Sprint("k", i), "12345678")
		}
	}
	if err := ks.Delete([]byte("k0")); err != nil {
		t.Fatal(err)
	}
	var p struct {
		Newest, Older, Deletes, Expired struct {
			Count int
			Bytes int64
		}
		KeyMean int64
		Sizes   []int
		Keeps   struct{ Versions int }
	}
	need(t, debug.Handler(db), "shape?ks="+b64("kept"), &p)
	if p.Newest.Count != 9 || p.Deletes.Count != 1 || p.Older.Count < 18 || p.Older.Bytes < 180 || p.KeyMean != 2 || p.Keeps.Versions != 3 {
		t.Errorf("%+v", p)
	}
	if len(p.Sizes) != 5 || p.Sizes[4] != 9 { // 8 bytes are in the bucket from 8 to 15
		t.Errorf("sizes %v", p.Sizes)
	}
}

// A follower shows what its writer has committed since it was opened.
func TestFollowerShowsNewCommits(t *testing.T) {
	writer := openStore(t, brock.Options{})
	set(t, writer, "a", "1")
	db := openStore(t, brock.Options{Dir: writer.Options().Dir, Mode: brock.Follow})
	h := debug.Handler(db)
	set(t, writer, "b", "2")
	if err := writer.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	var p keyPage
	need(t, h, "keys", &p)
	if got := p.names(t); got != "[a b] false false" {
		t.Error(got)
	}
	events, _ := look(t, mount(t, h), "live")
	await(t, events, "state", func(data json.RawMessage) bool {
		set(t, writer, "c", "3")
		var s struct{ Metrics map[string]float64 }
		return json.Unmarshal(data, &s) == nil && s.Metrics["version"] > float64(writer.Version()-2)
	})
}

func TestExpiredAndMetaAreShown(t *testing.T) {
	db := openStore(t, brock.Options{})
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	err := db.Update(func(txn *brock.Txn) error {
		return txn.SetEntry(brock.NewEntry([]byte("k"), []byte("v")).WithMeta(7).WithExpiry(at))
	})
	if err != nil {
		t.Fatal(err)
	}
	var p keyPage
	need(t, debug.Handler(db), "keys", &p)
	if len(p.Keys) != 1 || p.Keys[0].Meta != 7 || p.Keys[0].Expires != at.UnixMilli() {
		t.Errorf("%+v", p)
	}
}
