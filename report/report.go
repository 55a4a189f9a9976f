// Package report holds what a store tells of itself and of work on it: plain structs, which the
// engine fills in and users read. Package brock has them under names of its own, as
// brock.TreeMetrics for Tree and brock.WorkInfo for Work. Use those.
package report
