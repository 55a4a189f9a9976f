// Package device measures how fast a file can be read at random past the page
// cache: by fio if it is installed, else by a loop of threads.
package device

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"time"
)

// Block is how much one read takes, in bytes.
const Block = 4 << 10

// Rate is how fast the device read with a number of requests under way.
type Rate struct {
	Reads    float64 // a second
	P50, P99 float64 // microseconds
	CPU      float64 // microseconds of each read
}

// Tool names what Read uses here.
func Tool() string {
	if _, err := exec.LookPath("fio"); err == nil {
		return "fio"
	}
	return "direct reads (no fio)"
}

// Read reads blocks of a file at random, depth of them at once.
func Read(file string, depth int, slice time.Duration) (Rate, error) {
	if Tool() != "fio" {
		return loop(file, depth, slice)
	}
	rate, err := fio(file, depth, slice, "io_uring")
	if err != nil { // containers forbid io_uring
		rate, err = fio(file, depth, slice, "libaio")
	}
	return rate, err
}

func fio(file string, depth int, slice time.Duration, engine string) (Rate, error) {
	out, err := exec.Command("fio", "--name=read", "--filename="+file, "--readonly", "--rw=randread",
		fmt.Sprint("--bs=", Block), "--direct=1", "--norandommap", "--ioengine="+engine, fmt.Sprint("--iodepth=", depth),
		"--time_based", fmt.Sprintf("--runtime=%dms", slice.Milliseconds()), "--output-format=json").Output()
	if err != nil {
		return Rate{}, fmt.Errorf("fio: %w", err)
	}
	return parse(out)
}

// parse reads fio's report.
func parse(text []byte) (Rate, error) {
	var report struct {
		Jobs []struct {
			Error int
			User  float64 `json:"usr_cpu"`
			Sys   float64 `json:"sys_cpu"`
			Read  struct {
				Iops float64
				Clat struct{ Percentile map[string]float64 } `json:"clat_ns"`
			}
		}
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return Rate{}, fmt.Errorf("fio: %w", err)
	}
	if len(report.Jobs) != 1 || report.Jobs[0].Error != 0 || report.Jobs[0].Read.Iops == 0 {
		return Rate{}, fmt.Errorf("fio read nothing: %.200s", text)
	}
	j := report.Jobs[0]
	return Rate{
		Reads: j.Read.Iops,
		P50:   j.Read.Clat.Percentile["50.000000"] / 1e3, P99: j.Read.Clat.Percentile["99.000000"] / 1e3,
		CPU: (j.User + j.Sys) / 100 / j.Read.Iops * 1e6,
	}, nil
}
