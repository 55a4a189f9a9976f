// Package browser has the tests of package debug in a real browser. It is a module of its own, so that
// nobody else needs the driver of the browser.
//
//	go test . -shots DIR      also writes pictures of each view, at two widths, light and dark
//
// It needs Chromium or Chrome, in PATH or by the variable CHROMIUM; without one the tests are skipped.
package browser
