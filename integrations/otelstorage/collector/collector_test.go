package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
)

// asCollector makes this test program a collector: TestMain runs main, with the arguments that
// are left.
const asCollector = "BROCK_TEST_COLLECTOR"

func TestMain(m *testing.M) {
	if os.Getenv(asCollector) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// backend receives OTLP logs over HTTP. While it is away it refuses all.
type backend struct {
	*httptest.Server

	mu      sync.Mutex // guards:
	away    bool
	refused int
	seen    map[int64]int // how often the log record of this number came
}

func newBackend(t *testing.T) *backend {
	b := &backend{seen: make(map[int64]int)}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		b.refused++
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	request := plogotlp.NewExportRequest()
	if err := request.UnmarshalProto(body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, n := range numbers(request.Logs()) {
		b.seen[n]++
	}
}

func (b *backend) setAway(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

func (b *backend) received() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.seen)
}

func (b *backend) refusals() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

// numbers returns what makeLogs has numbered.
func numbers(logs plog.Logs) (all []int64) {
	for i := range logs.ResourceLogs().Len() {
		scopes := logs.ResourceLogs().At(i).ScopeLogs()
		for j := range scopes.Len() {
			records := scopes.At(j).LogRecords()
			for k := range records.Len() {
				if n, ok := records.At(k).Attributes().Get("n"); ok {
					all = append(all, n.Int())
				}
			}
		}
	}
	return all
}

// makeLogs returns an export request of n log records that are numbered from first on.
func makeLogs(t *testing.T, first, n, size int) []byte {
	logs := plog.NewLogs()
	records := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	for i := range n {
		record := records.AppendEmpty()
		record.Attributes().PutInt("n", int64(first+i))
		record.Body().SetStr(strings.Repeat(strconv.Itoa(first+i)+" ", size/(len(strconv.Itoa(first+i))+1)))
	}
	body, err := plogotlp.NewExportRequestFromLogs(logs).MarshalProto()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// collector is a collector in a process of its own.
type collector struct {
	process  *exec.Cmd
	endpoint string
	log      *output
	ended    chan error
}

// output is what a process prints.
type output struct {
	mu sync.Mutex // guards:
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// config has the places of %s: directory, options of the storage, address of the receiver, URL of the backend.
const config = `
extensions:
  brock_storage:
    directory: %s
    create_directory: true
%s
receivers:
  otlp:
    protocols:
      http:
        endpoint: %s
exporters:
  otlp_http:
    endpoint: %s
    compression: none
    sending_queue:
      storage: brock_storage
      queue_size: 1000000
      num_consumers: 4
    retry_on_failure:
      initial_interval: 20ms
      max_interval: 100ms
      max_elapsed_time: 0
service:
  telemetry:
    metrics:
      level: none
  extensions: [brock_storage]
  pipelines:
    logs:
      receivers: [otlp]
      exporters: [otlp_http]
`

// startCollector starts a collector and waits until it receives.
func startCollector(t *testing.T, directory, options, url string) *collector {
	t.Helper()
	// A port that is free now. Nobody else takes it before the collector does, with near certainty.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, directory, options, address, url), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{process: exec.Command(self, "--config", file), endpoint: "http://" + address + "/v1/logs",
		log: new(output), ended: make(chan error, 1)}
	c.process.Env = append(os.Environ(), asCollector+"=1")
	c.process.Stdout, c.process.Stderr = c.log, c.log
	if err := c.process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { c.ended <- c.process.Wait() }()
	t.Cleanup(func() {
		_ = c.process.Process.Kill() // no harm if it has ended
		if t.Failed() {
			t.Logf("the collector printed:\n%s", c.log)
		}
	})
	eventually(t, "the collector receives", func() bool {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
	return c
}

// send sends a request, and reports whether the collector has accepted it.
func (c *collector) send(t *testing.T, body []byte) bool {
	t.Helper()
	response, err := http.Post(c.endpoint, "application/x-protobuf", bytes.NewReader(body))
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode == http.StatusOK
}

// kill ends the process without a warning.
func (c *collector) kill(t *testing.T) {
	t.Helper()
	if err := c.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.ended
}

// stop ends the process as a service manager does.
func (c *collector) stop(t *testing.T) {
	t.Helper()
	if err := c.process.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := <-c.ended; err != nil {
		t.Fatalf("the collector ended with %v", err)
	}
}

// eventually waits for a condition, for as long as the test may run.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("did not happen: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// diskUse returns the bytes of all files in a directory.
func diskUse(t *testing.T, directory string) (total int64) {
	t.Helper()
	err := filepath.WalkDir(directory, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// A file may be gone since the directory was read.
		if info, err := entry.Info(); err == nil && !entry.IsDir() {
			total += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Log(err) // the same for a file
	}
	return total
}

// Everything that the collector has accepted arrives, although the backend is away, and the
// collector is killed while it receives and sends. Then the disk space comes back.
func TestNothingIsLost(t *testing.T) {
	const records, size = 10, 10_000 // of a request
	directory := filepath.Join(t.TempDir(), "storage")
	b := newBackend(t)
	b.setAway(true)
	next, accepted := 0, make(map[int64]bool)
	sendSome := func(c *collector, requests int) {
		for range requests {
			if c.send(t, makeLogs(t, next, records, size)) {
				for i := range records {
					accepted[int64(next+i)] = true
				}
			}
			next += records
		}
	}

	c := startCollector(t, directory, "", b.URL)
	sendSome(c, 1000)
	if len(accepted) != 1000*records {
		t.Fatalf("%d of %d records were accepted", len(accepted), 1000*records)
	}
	eventually(t, "the backend refuses", func() bool { return b.refusals() > 0 })
	full := diskUse(t, directory)
	c.kill(t)

	// Killed again while it sends what there was, and receives more.
	for range 3 {
		c = startCollector(t, directory, "", b.URL)
		b.setAway(false)
		before := b.received()
		done := make(chan struct{})
		go func() {
			defer close(done)
			sendSome(c, 100)
		}()
		eventually(t, "the backend receives", func() bool { return b.received() > before })
		c.kill(t)
		<-done
		b.setAway(true)
	}

	b.setAway(false)
	c = startCollector(t, directory, "", b.URL)
	sendSome(c, 100)
	eventually(t, "all has arrived", func() bool { return b.received() >= len(accepted) })
	// Of a request without an answer nobody knows whether it was accepted, so more may arrive.
	eventually(t, "all that was accepted has arrived", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		for n := range accepted {
			if b.seen[n] == 0 {
				return false
			}
		}
		return true
	})
	// A store at rest may keep 64 MB of garbage (docs/guarantees.md).
	if full < 90<<20 {
		t.Fatalf("the full queue had %d bytes", full)
	}
	eventually(t, "disk space comes back", func() bool { return diskUse(t, directory) < 65<<20 })
	c.stop(t)
	if strings.Contains(c.log.String(), "error") {
		t.Errorf("the collector that was not killed printed an error:\n%s", c.log)
	}
}

// A collector whose storage has reached its limit refuses what is new, loses nothing of what it
// has accepted, and goes on when there is room.
func TestFullStorage(t *testing.T) {
	const records, size = 10, 10_000 // of a request
	directory := filepath.Join(t.TempDir(), "storage")
	b := newBackend(t)
	b.setAway(true)
	c := startCollector(t, directory, "    disk_limit_mib: 32\n", b.URL)
	accepted := make(map[int64]bool)
	next, refused := 0, 0
	for refused < 100 {
		if c.send(t, makeLogs(t, next, records, size)) {
			for i := range records {
				accepted[int64(next+i)] = true
			}
		} else {
			refused++
		}
		next += records
		if next > 100_000 {
			t.Fatal("10 GB were accepted with a limit of 32 MiB")
		}
	}
	if used := diskUse(t, directory); used > 32<<20 {
		t.Errorf("%d bytes are used", used)
	}
	if len(accepted) < 100 {
		t.Errorf("only %d records of 10 KB were accepted with a limit of 32 MiB", len(accepted))
	}
	t.Logf("%d records of 10 KB were accepted", len(accepted))
	b.setAway(false)
	eventually(t, "all that was accepted has arrived", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		for n := range accepted {
			if b.seen[n] == 0 {
				return false
			}
		}
		return true
	})
	eventually(t, "the collector accepts again", func() bool {
		next += records
		return c.send(t, makeLogs(t, next, records, size))
	})
	c.stop(t)
}
