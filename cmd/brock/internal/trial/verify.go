package trial

import (
	"fmt"
	"time"

	"github.com/brockdb/brock"
	"github.com/brockdb/brock/cmd/brock/internal/human"
)

// verified is the result of the step of verifying.
type verified struct {
	Files     int           `json:"files"`
	Bytes     int64         `json:"bytes"`
	Checksums time.Duration `json:"nanoseconds"`
}

func (v verified) String() string {
	return fmt.Sprintf("all checksums and cross-references of %s, %s; every pair again",
		human.Things(int64(v.Files), "file"), human.ByteRate(v.Bytes, v.Checksums))
}

// verify checks the files, and that the pairs of the source survived it all.
func (t *trial) verify() (fmt.Stringer, error) {
	files, size, err := t.files()
	if err != nil {
		return nil, err
	}
	work := t.Progress.Start("verify", 0)
	defer work.End()
	begin := time.Now()
	if err := t.db.Verify(t.ctx, nil); err != nil {
		return nil, err
	}
	v := verified{len(files), size, time.Since(begin)}
	_, err = t.walk(brock.IteratorOptions{Prefetch: 64}, t.records)
	return v, err
}

// sized is the result of the last step.
type sized struct {
	Live     int64   `json:"liveBytes"` // of keys and values, the trial's own too
	Files    int64   `json:"fileBytes"`
	SpaceAmp float64 `json:"spaceAmplification"`
}

func (s sized) String() string {
	return fmt.Sprintf("%s in files for %s of keys and values: ×%.2f", human.Bytes(s.Files), human.Bytes(s.Live), s.SpaceAmp)
}

// size compares the files of the closed store with what is in it.
func (t *trial) size() (fmt.Stringer, error) {
	var s sized
	err := t.db.ViewContext(t.ctx, brock.TxnOptions{}, func(txn *brock.Txn) error {
		for item, err := range txn.Items(brock.IteratorOptions{KeysOnly: true}) {
			if err != nil {
				return err
			}
			s.Live += int64(len(item.Key())) + item.ValueSize()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := t.close(); err != nil {
		return nil, err
	}
	_, s.Files, err = t.files()
	s.SpaceAmp = float64(s.Files) / float64(max(s.Live, 1))
	return s, err
}
