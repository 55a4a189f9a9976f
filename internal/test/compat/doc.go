// Package compat opens the stores that earlier releases have written, and
// compares what is in them with the listings beside them. Each release adds its
// own; see RELEASING.md.
package compat
