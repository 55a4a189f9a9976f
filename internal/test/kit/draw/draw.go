// Package draw gives random tests their seeds.
//
// A test draws anew in each run. If the environment has a BROCK_SEED, which may be any text,
// a test draws what follows from this text and the test's name, so always the same. A test
// that has drawn and fails logs the BROCK_SEED that repeats its draws.
package draw

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
)

// Seed draws a seed. The order of a test's calls decides what each one draws, so only one
// goroutine of a test may call it.
func Seed(t testing.TB) uint64 {
	f := of(t)
	mu.Lock()
	defer mu.Unlock()
	f.draws[t.Name()]++
	return f.mix(t.Name(), f.draws[t.Name()])
}

// Rand returns random numbers of a seed that is drawn.
func Rand(t testing.TB) *rand.Rand { return rand.New(rand.NewPCG(Seed(t), 0)) }

// Coin draws yes or no: the same in all calls of a test.
func Coin(t testing.TB) bool {
	return of(t).mix(t.Name(), 0)&1 == 1
}

// family is a test and its subtests, which draw from one text.
type family struct {
	text  string
	tests map[testing.TB]bool // those that have drawn and have not ended
	draws map[string]int      // seeds drawn, by the name of the test
}

var (
	mu       sync.Mutex
	families = map[string]*family{} // by name
)

func of(t testing.TB) *family {
	name, _, _ := strings.Cut(t.Name(), "/")
	mu.Lock()
	defer mu.Unlock()
	f := families[name]
	if f == nil {
		f = &family{text: os.Getenv("BROCK_SEED"), tests: map[testing.TB]bool{}, draws: map[string]int{}}
		if f.text == "" {
			f.text = fmt.Sprintf("%08x", rand.Uint32())
		}
		families[name] = f
	}
	if !f.tests[t] {
		f.tests[t] = true
		t.Cleanup(func() { f.end(t, name) })
	}
	return f
}

// mix returns a number for the nth draw of a test.
func (f *family) mix(name string, n int) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", f.text, name, n))
	return binary.LittleEndian.Uint64(sum[:])
}

// end forgets a family when its last test has ended: with -count, the next one draws anew.
func (f *family) end(t testing.TB, name string) {
	if t.Failed() {
		t.Logf("BROCK_SEED=%s draws the same again", f.text)
	}
	mu.Lock()
	defer mu.Unlock()
	delete(f.tests, t)
	if len(f.tests) == 0 {
		delete(families, name)
	}
}
