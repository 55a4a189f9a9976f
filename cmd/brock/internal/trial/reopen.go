package trial

import (
	"fmt"
	"maps"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
)

// reopened is the result of the step of reopening after a clean close.
type reopened struct {
	Close    time.Duration `json:"closeNanoseconds"`
	ReadOnly time.Duration `json:"openReadOnlyNanoseconds"`
	Open     time.Duration `json:"openNanoseconds"`
}

func (r reopened) String() string {
	return fmt.Sprintf("close %s; open read-only %s, which changes no file; open %s",
		human.Duration(r.Close), human.Duration(r.ReadOnly), human.Duration(r.Open))
}

func (t *trial) reopen() (_ fmt.Stringer, err error) {
	var r reopened
	begin := time.Now()
	if err := t.close(); err != nil {
		return nil, err
	}
	r.Close = time.Since(begin)
	check := func() error { return t.db.View(audit) }
	if r.ReadOnly, err = t.lookReadOnly(check); err != nil {
		return nil, err
	}
	if r.Open, err = t.open(brock.ReadWrite); err != nil {
		return nil, err
	}
	return r, check()
}

// lookReadOnly opens the store read-only for a check, and sees to it that this
// changes no file. It returns how long opening took.
func (t *trial) lookReadOnly(check func() error) (took time.Duration, err error) {
	before, _, err := t.files()
	if err != nil {
		return 0, err
	}
	if took, err = t.open(brock.ReadOnly); err != nil {
		return 0, fmt.Errorf("read-only: %w", err)
	}
	if err := check(); err != nil {
		return 0, fmt.Errorf("read-only: %w", err)
	}
	if err := t.close(); err != nil {
		return 0, err
	}
	after, _, err := t.files()
	if err == nil && !maps.Equal(before, after) {
		err = wrong("opening it read-only changed its files from %v to %v", before, after)
	}
	return took, err
}
