package storetest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/brockdb/brock"
)

// TestWriteStall writes faster than memtables can be flushed: each flush waits
// until a writer was throttled. Both events, begin and end, must come.
func TestWriteStall(t *testing.T) {
	var (
		mu     sync.Mutex
		stalls []brock.StallInfo
		log    bytes.Buffer
	)
	throttled := make(chan struct{})
	db := openTest(t, brock.Options{
		Durability: brock.Buffered,
		Tuning:     brock.Tuning{MemtableSize: 64 << 10},
		Logger:     slog.New(slog.NewTextHandler(&log, nil)),
		Events: brock.Events{
			WriteStall: func(s brock.StallInfo) {
				mu.Lock()
				defer mu.Unlock()
				if s.Begin && len(stalls) == 0 {
					close(throttled)
				}
				stalls = append(stalls, s)
			},
			Flush: func(brock.WorkInfo) { <-throttled },
		},
	})
	for i := 0; ; i++ {
		must(t, db.Set(fmt.Appendf(nil, "key %d", i), make([]byte, 400)))
		select {
		case <-throttled:
		default:
			continue
		}
		break
	}
	must(t, db.Flush(context.Background()))
	must(t, db.Close())
	if len(stalls) == 0 || len(stalls)%2 != 0 {
		t.Fatalf("calls: %+v", stalls)
	}
	for i, s := range stalls {
		if s.Begin != (i%2 == 0) || s.Reason == "" || s.Begin != (s.Took == 0) {
			t.Errorf("call %d: %+v", i, s)
		}
	}
	for _, text := range []string{"level=WARN msg=\"writers are throttled\"", "no longer throttled"} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log lacks %q:\n%s", text, log.String())
		}
	}
}
