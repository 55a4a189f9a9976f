// Package replicated keeps a Brock store alike on several machines, by the raft of hashicorp. It is
// for those who have outgrown one machine in what they can lose, not in what it can do: a group has
// the speed of one leader, and each node has all data.
//
// A Command is a transaction with conditions. Apply puts it into the log of the group, and every node
// does it. View reads: the newest state, one of bounded age, or what the node has. Commands and reads
// may be given to any node.
//
// # What is durable when
//
//   - A log entry is on the disk of a node when the node acknowledges it; so a command that Apply has
//     acknowledged is on the disks of a majority.
//   - The state is Buffered: it follows the log, and after a power loss the log repeats what is
//     missing. The index of the newest command is in the same commit as what the command has written.
//   - The log is cut only behind a checkpoint: a store that is durable, and has all commands up to the
//     cut.
//   - A snapshot of another node counts once all of it is on the disk and was verified.
//   - One record in the stable store of raft says which state and which checkpoint count. It changes
//     in one step.
//
// # Invariants
//
// They are checked where they must hold; a node in which one does not hold is not opened, or stops.
//
//   - The newest version of a state is the index of the last command in it, on all nodes, but between
//     the entry that makes a keyspace and the next command. So it is after a power loss, and the log
//     can repeat what is missing under the same versions.
//   - What a command does depends on the log up to it, and on nothing else: on no clock, no chance, no
//     batch, no restart.
//   - An entry that the state has is not done again. A command that is sent again is not done again.
//   - The log has every entry that the state lacks.
//   - A checkpoint has exactly the command that its header names.
//   - A read waits until the state has all that was committed when it began, as told by a leader that a
//     quorum has confirmed after that.
//   - A node that has lost its directory is another node, whatever its ID is. A node that was told that a
//     member is removed can count on it.
//   - A vote is stored by one write. What a node has acknowledged no snapshot takes away.
//   - A node whose disk fails, hangs or has damage is not heard of any more: it neither votes nor
//     leads.
//
// FORMAT.md describes what is written and sent.
package replicated
