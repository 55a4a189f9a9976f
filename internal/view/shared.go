package view

// mapped is the file name in the error of a memory fault whose file is not known.
const someMapping = "a mapped file"

// shared counts the Views that hold a resource: a table, run or segment. Only a Set changes
// the count, under its mutex. Readers never do: they hold Views, by their slots.
type shared struct {
	views   int                // number of Views that hold it; guarded by Set.mu
	retired bool               // its files are garbage
	release func(retired bool) // called once, when no View holds it any more
}

// Retire marks a resource as garbage: its files are removed when the last View that holds
// it is released. Call it before a View without the resource is installed.
func (s *shared) Retire() { s.retired = true }

// Discard closes a resource that no View holds, and removes its files if it was
// retired.
func (s *shared) Discard() { s.release(s.retired) }
