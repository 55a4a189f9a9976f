// Package arch holds the tests that keep the code as ARCHITECTURE.md and
// STYLE.md say it is. layers.txt lists which package may import which,
// exceptions.txt who may do what others must not, and why; ceilings.txt bounds
// the size of packages, types, files and functions, and how knotted they are.
package arch
