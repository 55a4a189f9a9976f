// Package human writes numbers for people.
package human

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bytes returns a size in decimal units, as "12.3 MB".
func Bytes(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/1000, 0
	for f >= 999.5 && i < 5 {
		f, i = f/1000, i+1
	}
	return fmt.Sprintf("%s %cB", three(f), "kMGTPE"[i])
}

// Count returns a number with its thousands apart, as "11,478".
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Things returns a number of things, as "1 file" or "2,000 entries".
func Things(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if stem, ok := strings.CutSuffix(thing, "y"); ok {
		return Count(n) + " " + stem + "ies"
	}
	if last := thing[len(thing)-1]; last == 's' || last == 'x' {
		thing += "e"
	}
	return Count(n) + " " + thing + "s"
}

// Duration returns a time to three digits, as "1.23 s" or "45.6 ms".
func Duration(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return three(d.Seconds()) + " s"
	case d >= time.Millisecond:
		return three(d.Seconds()*1e3) + " ms"
	}
	return three(d.Seconds()*1e6) + " µs"
}

// Rate returns n things a second, to three digits, as "38,100 pairs/s".
func Rate(n int64, things string, d time.Duration) string {
	return Count(round(perSecond(n, d))) + " " + things + "/s"
}

// ByteRate returns n bytes a second, as "165 MB/s".
func ByteRate(n int64, d time.Duration) string {
	return Bytes(int64(perSecond(n, d))) + "/s"
}

func perSecond(n int64, d time.Duration) float64 {
	return float64(n) / max(d.Seconds(), 1e-6)
}

// round rounds to three digits.
func round(f float64) int64 {
	unit := int64(1)
	for f/float64(unit) >= 1000 {
		unit *= 10
	}
	return int64(f/float64(unit)+0.5) * unit
}

func three(f float64) string {
	switch {
	case f >= 99.95:
		return fmt.Sprintf("%.0f", f)
	case f >= 9.995:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}
