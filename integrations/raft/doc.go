// Package raftstore keeps the log and the stable keys of github.com/hashicorp/raft in a Brock
// store.
//
// A Store is the log of one raft group: a raft.LogStore, a raft.MonotonicLogStore, a
// raft.CommitTrackingLogStore and a raft.StableStore. Open makes one in a directory of its own.
// New makes one within a store that a program has open already, so that several groups, and the
// program's own data, share one store; their appends share its syncs.
//
// What a method has written is on the disk when it returns nil. After an error nothing of it is
// there, unless errors.Is reports brock.ErrStopped: then a write or sync has failed, nothing is
// written any more, and the next Open may find it or not.
//
// All methods may be called at once. Slices that are passed in are copied; slices that are
// returned belong to the caller.
package raftstore
