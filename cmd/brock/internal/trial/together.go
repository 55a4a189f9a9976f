package trial

import "sync"

// together runs n goroutines of fn and returns, when all have ended, their first
// error: one failure of the store fails many.
func together(n int, fn func(i int) error) error {
	var (
		first error
		once  sync.Once
		wait  sync.WaitGroup
	)
	for i := range n {
		wait.Go(func() {
			if err := fn(i); err != nil {
				once.Do(func() { first = err })
			}
		})
	}
	wait.Wait()
	return first
}
