//go:build !linux

package device

import (
	"errors"
	"time"
)

func loop(string, int, time.Duration) (Rate, error) {
	return Rate{}, errors.New("device: without fio, only Linux is measured")
}
