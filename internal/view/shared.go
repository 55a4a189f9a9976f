package view

// mapped is the file that a memory fault is blamed on where nothing below
// knows better.
const mapped = "a mapped file"

// shared counts the Views that hold a resource. Only a Set touches the count,
// under its mutex: readers hold Views, by their slots.
type shared struct {
	views   int
	retired bool
	release func(retired bool) // called once, when no View holds it any more
}

// Retire has the files of a resource go with the last View that holds it. It is
// called before a View without the resource is installed.
func (s *shared) Retire() { s.retired = true }

// Discard closes a resource that no View holds, and removes its files if it was
// retired.
func (s *shared) Discard() { s.release(s.retired) }
