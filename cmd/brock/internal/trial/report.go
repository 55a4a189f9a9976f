package trial

import (
	"fmt"
	"time"

	"github.com/brockdb/brock/cmd/brock/internal/human"
)

// Report is the outcome of a trial.
type Report struct {
	Source string        `json:"source"`
	Dir    string        `json:"dir"`
	Seed   uint64        `json:"seed"`
	Passed bool          `json:"passed"`
	Took   time.Duration `json:"nanoseconds"`
	Steps  []Step        `json:"steps"`
}

// Step is one step of a trial. Its Result has the figures, and a String for people.
type Step struct {
	Name   string        `json:"name"`
	Took   time.Duration `json:"nanoseconds"`
	Result fmt.Stringer  `json:"result,omitempty"`
	Error  string        `json:"error,omitempty"`
}

// String returns a line, or more if the Result has several.
func (s Step) String() string {
	mark, text := "✓", s.Error
	if s.Error != "" {
		mark = "✗"
	} else {
		text = s.Result.String()
	}
	return fmt.Sprintf("  %s %-8s %8s  %s", mark, s.Name, human.Duration(s.Took), text)
}

// indent begins the second and further lines of a Result.
const indent = "\n                       "
