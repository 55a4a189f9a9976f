package human

import (
	"testing"
	"time"
)

func TestNumbers(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{Bytes(0), "0 B"},
		{Bytes(999), "999 B"},
		{Bytes(1000), "1.00 kB"},
		{Bytes(12_345_678), "12.3 MB"},
		{Bytes(999_999), "1.00 MB"},
		{Bytes(1<<63 - 1), "9.22 EB"},
		{Count(0), "0"},
		{Count(-1234), "-1,234"},
		{Count(-123), "-123"},
		{Count(1_234_567), "1,234,567"},
		{Things(1, "entry"), "1 entry"},
		{Things(2000, "entry"), "2,000 entries"},
		{Things(0, "file"), "0 files"},
		{Things(2, "prefix") + ", " + Things(2, "process"), "2 prefixes, 2 processes"},
		{Duration(0), "0.00 µs"},
		{Duration(1500 * time.Nanosecond), "1.50 µs"},
		{Duration(45_600 * time.Microsecond), "45.6 ms"},
		{Duration(1234 * time.Millisecond), "1.23 s"},
		{Duration(90 * time.Second), "1m30s"},
		{Rate(123_456, "gets", 2*time.Second), "61,700 gets/s"},
		{Rate(7, "gets", 0), "7,000,000 gets/s"},
		{ByteRate(165_000_000, time.Second), "165 MB/s"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}
