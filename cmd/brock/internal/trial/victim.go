package trial

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// victim is a process that writes, and is killed.
type victim struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	opened chan struct{} // closed when it begins to open the store
	acked  chan struct{} // closed at its first acknowledgement
	ended  chan struct{} // closed when everything it said is read
	last   [writers]int  // commits acknowledged last; read it after ended
	err    error         // of what it said; read it after ended
}

func startVictim(cmd *exec.Cmd) (*victim, error) {
	v := &victim{cmd: cmd, opened: make(chan struct{}), acked: make(chan struct{}), ended: make(chan struct{})}
	cmd.Stderr = &v.stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go v.listen(stdout)
	return v, nil
}

// opens returns a channel that is closed when the process begins to open the store.
func (v *victim) opens() <-chan struct{} { return v.opened }

// acknowledges returns a channel that is closed when the process acknowledges its first commit.
func (v *victim) acknowledges() <-chan struct{} { return v.acked }

// listen notes what the process says, also what it said just before it died.
func (v *victim) listen(stdout io.Reader) {
	defer close(v.ended)
	lines, acknowledged := bufio.NewScanner(stdout), false
	for lines.Scan() {
		switch lines.Text() {
		case opening:
			close(v.opened)
			continue
		case ready:
			continue
		}
		var writer, n int
		if _, err := fmt.Sscan(lines.Text(), &writer, &n); err != nil || writer < 0 || writer >= writers || n != v.last[writer]+1 {
			v.err = fmt.Errorf("the writing process says %q after %v", lines.Text(), v.last)
			return
		}
		v.last[writer] = n
		if !acknowledged {
			acknowledged = true
			close(v.acked)
		}
	}
	v.err = lines.Err()
}

// kill waits for the event and for a while more, and kills the process. It
// returns which commits were acknowledged last.
func (v *victim) kill(event <-chan struct{}, after time.Duration) (acknowledged [writers]int, err error) {
	select {
	case <-event:
	case <-v.ended:
	}
	select {
	case <-time.After(after):
	case <-v.ended:
	}
	killed := v.cmd.Process.Kill()
	<-v.ended
	_ = v.cmd.Wait() // says that it was killed
	if killed != nil || v.stderr.Len() > 0 {
		return v.last, fmt.Errorf("the writing process ended by itself: %s", bytes.TrimSpace(v.stderr.Bytes()))
	}
	return v.last, v.err
}
