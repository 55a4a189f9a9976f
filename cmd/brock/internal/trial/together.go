package trial

import (
	"errors"
	"sync"
)

// together runs n goroutines of fn and returns their errors when all have ended.
func together(n int, fn func(i int) error) error {
	errs := make([]error, n)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { errs[i] = fn(i) })
	}
	wait.Wait()
	return errors.Join(errs...)
}
