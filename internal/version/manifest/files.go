package manifest

import (
	"bytes"
	"errors"
	"io/fs"
)

func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func allZero(p []byte) bool { return len(bytes.TrimLeft(p, "\x00")) == 0 }
