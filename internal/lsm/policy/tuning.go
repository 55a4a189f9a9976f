package policy

import "time"

// This file is the table of all numbers that policy decides by, in groups by
// decision. A line says what a number does; a group says what its numbers trade
// against each other. Sizes end in Bytes, times in Millis, shares in Percent or,
// as 1/n, in Fraction; a Factor multiplies. Only what is in Options can be set by
// users: before you change another one, read the scripts in testdata, which show
// what follows from it, and measure writes, space and reads.

// Defaults of Options; its fields say what they trade.
const (
	defaultGarbageShare = 50        // percent of live bytes
	defaultSegmentBytes = 256 << 20 // 256 MB
)

// A collection keeps where its records went until it ends. Fewer records take less memory, and more
// of its segments are collected one by one.
const (
	bytesPerMove     = 256     // of Options.Memory: a collection of several segments moves one record for as many
	mostMovedRecords = 2 << 20 // 2 Mi records
)

// Lazy leveling: each upper run costs a get one filter probe. Upper runs that weigh as much as the
// base are compacted into it, so the base is rewritten once for each time that it doubles.
const (
	upperRuns        = 6 // from that many on, upper runs are compacted,
	leastRuns        = 3 // at least 3 at a time, at idle if 3 are alike;
	heavyUpperFactor = 3 // with fewer only if they weigh 3x as much as the base: what they replace in it is bounded by nothing else
	freedFactor      = 2 // what a run's deletes free adds at most 2x its size to its weight
)

// Idle compaction: a store at rest is fastest to read as one run, but the base
// must not be rewritten for a trickle of writes. Larger fractions rewrite less
// and leave more runs.
const (
	idleUpperFraction = 10       // compact all runs if the upper ones weigh 1/10 of the base,
	tinyBytes         = 16 << 20 // and always if that rewrites at most 16 MB; so for forwarding tables and expiry, also while clients write
)

// Hidden garbage: values that entries of upper runs replace. It can be collected
// only after a compaction has found it. Smaller numbers free space sooner and
// rewrite the base more often.
const (
	upperHiddenFraction = 10       // compact when upper runs hide 1/10 of the garbage budget,
	hiddenLeastBytes    = 1 << 20  // at least 1 MB, and no less than the compaction reads;
	mostHiddenFraction  = 3        // but in any case when they hide 1/3 of it,
	mostHiddenFactor    = 12       // unless the compaction reads 12x as much as it would find
	idleHiddenPercent   = 5        // at idle, compact when upper runs may hide 5 % of the oldest run and its values,
	IdleHiddenBytes     = 16 << 20 // at least 16 MB: less is not looked for, and a memtable that hides as much is sealed
)

// Dropped keyspaces: a run with much of them is rewritten alone. Smaller numbers
// free space sooner and write more.
const (
	droppedPercent     = 50      // of a run's files, while clients write,
	idleDroppedPercent = 10      // or at idle,
	droppedBytes       = 1 << 20 // at least 1 MB
)

// The garbage budget: what Options.GarbageShare of the live data leaves after
// what nobody counts. The smaller it is, the more often live data is moved.
const (
	budgetLeastBytes   = 32 << 20 // a budget is at least 32 MB, however little is live
	budgetRestFraction = 16       // 1/16 of it is kept for headers, and for files that are about to be removed,
	budgetFixedBytes   = 4 << 20  // and 4 MB for the manifest and the ends of files
	runGarbageFraction = 16       // files of runs count as garbage, up to 1/16 of what is live
)

// What is done as the budget is used up, from early and gentle to late and
// costly. Each limit leaves the work before it time to help.
const (
	tableHiddenFraction = 16      // seal a memtable that hides 1/16 of the budget,
	tableHiddenBytes    = 4 << 20 // at least 4 MB
	RangedFraction      = 4       // range deletes are taken to hide 1/4 of what is in their memtable
	collectPercent      = 67      // of the budget: collect segments while clients write,
	fullPacePercent     = 79      // as fast as it goes from here on
	throttlePercent     = 85      // throttle writers
)

// Collection moves live values of segments with garbage. Less garbage left means
// more live bytes moved; larger batches mean fewer edits and more space while
// they run.
const (
	busyBatchFraction   = 2        // a collection writes one segment, while clients write half of one: see segmentFraction
	readyPercent        = 80       // garbage in a segment that is collected in any case
	idleReadyPercent    = 50       // at idle
	victimLeastPercent  = 5        // a segment with less garbage is never collected
	idleGarbagePercent  = 20       // an idle store keeps garbage of up to 20 % of what is live,
	idleGarbageBytes    = 8 << 20  // and 8 MB more,
	reclaimGarbageBytes = 64 << 10 // or 64 KB more, if space is asked for
	maxForwardings      = 16       // relocated segments at most; each costs memory, and reads one step more
	idlePointerFactor   = 2        // at idle, runs of at most 2x what collections have moved are compacted to be rid of forwarding tables
	recordOverheadBytes = 64       // a record of a journal segment has at most 64 bytes beside its value; more is of other records
)

// Segments: small ones are collected cheaply, large ones need fewer files.
const (
	segmentFraction   = 16      // a segment is at most 1/16 of what is live,
	segmentLeastBytes = 8 << 20 // at least 8 MB,
	keepLeastBytes    = 4 << 20 // a smaller journal segment is never kept as a value segment
)

// Clustering rewrites values in key order. A larger factor makes scans fast sooner and writes more,
// larger pieces take more disk space meanwhile.
const (
	clusterFactor = 4       // rewrite at most 4x the bytes that scans have jumped to
	clusterBytes  = 2 << 30 // move 2 GB of values at a time, or as much as the runs that are rewritten with them
)

// Expiry: what has expired stays in its run until a compaction passes. A shorter
// wait frees space sooner and rewrites runs more often.
const (
	expiryGraceMillis        = 20_000     // wait at least 20 s after the end of a step
	expiryBusyMillis         = 86_400_000 // while clients write, wait a day
	expiryMuchFraction       = 4          // unless 1/4 of a run's files has expired,
	expiryMuchDataFraction   = 16         // and 1/16 of its files and values together,
	expiryReachFactor        = 4          // compact down to the base if that is at most 4x the runs that are due
	agedLateFraction         = 16         // history may stay for 1/16 of its age more
	memtableExpiryMillis     = 40_000     // flush a memtable 40 s after its first expiry,
	memtableExpiryBusyMillis = 600_000    // or 10 minutes while clients write, as more may expire by then
)

// Memtables that only old readers keep. A smaller share leaves more memory to others,
// and makes memtables small, and runs many, beside fewer readers.
const (
	pinnedFraction     = 4        // they may take 1/4 of memory; from then on new memtables are halved,
	pinnedStepFraction = 16       // again for each 1/16 more,
	pinnedHalvings     = 4        // 4 times at most,
	pinnedLeastBytes   = 64 << 10 // and not below 64 KB
)

// The rest are numbers of internal/engine, which carries out the work.

// Throttling: how far background work may lag behind writers. Smaller numbers
// make reads fast and memory small under load, larger ones writers.
const (
	ThrottleTables        = 1                     // 1 sealed memtable costs writers nothing,
	ThrottleMostTables    = 4                     // at 4 they wait for a flush
	ThrottleRuns          = 12                    // 12 runs cost them nothing, every 2 more a delay,
	ThrottleRunsDelays    = 50                    // and at most 50
	ThrottleDelay         = 20 * time.Millisecond // one full delay,
	ThrottleDelayBytes    = 1 << 20               // which 1 MB of payload pays for
	ThrottleBudgetDelays  = 2                     // 2 delays where the garbage budget is used up,
	ThrottleGarbageDelays = 32                    // and at most 32 for garbage
)

// Sampling of what writes replace. More looks make the estimate better and go to
// the disk more often.
const (
	SampleFraction    = 2048        // one look for 1/2048 of what is live,
	SampleLeastBytes  = 32 << 10    // but at least 32 KB of records
	SampleMostBytes   = 1 << 20     // and at most 1 MB
	SampleDeleteBytes = 1 << 10     // a delete counts as 1 KB more than its record,
	ShortAge          = time.Second // history of less counts as garbage at once: when it began is known by edits only
	SampleLargest     = 128         // or as 1/128 of the largest value lately written, if that is more
	SampleMostLooks   = 1 << 10     // versions of a key that one look passes, while all commits wait
)

// Disk space. A larger reserve leaves more for work that frees space, and less for
// writers.
const (
	ReserveSlackBytes    = 256 << 10              // of the reserve, 256 KB for edits and the ends of files,
	ReserveSlackFraction = 512                    // and 1/512 of the segments: edits name what is dead
	MeasureLeastBytes    = 64 << 10               // look at the disk after 64 KB written at least
	MeasureMostBytes     = 64 << 20               // and 64 MB at most
	DiskPoll             = 200 * time.Millisecond // while something waits for disk space, look this often
	DiskPatience         = time.Second            // sets wait 1 s for compactions and collections under way
	RetryPolls           = 5                      // polls before a flush is retried without evidence of free space
	RetryGrownBytes      = 64 << 10               // evidence: 64 KB more are free
)

// Collection gives way to writers, unless somebody waits for it.
const (
	CollectionRate      = 128 << 20        // 128 MB a second, read and written, while clients write
	CollectionFlushWait = time.Second      // wait 1 s at most for a memtable that is to be flushed
	CollectionLeastWait = time.Millisecond // shorter waits are put together
)

// The memtable of a store at rest is sealed if that frees much (IdleHiddenBytes), or if it is large.
const (
	IdleSealFraction = 16 // it is filled to 1/16
	ReplayedSegments = 4  // Open leaves at most 4 journal segments in memory, or seals them
)

// Expiry.
const ExpiryLeastWait = 5 * time.Second // between two looks: work that fails again and again must not be all there is
