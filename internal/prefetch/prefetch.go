// Package prefetch asks the processor for memory that will be read soon. That
// changes nothing but time: an address that is not mapped, or not in memory, is
// passed over, and on systems for which it does nothing all works the same.
package prefetch

// Line is the unit in which processors have memory brought near.
const Line = 64
