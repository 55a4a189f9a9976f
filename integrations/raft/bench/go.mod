module github.com/brockdb/brock/integrations/raft/bench

go 1.25.0

require (
	github.com/brockdb/brock v0.0.0
	github.com/brockdb/brock/integrations/raft v0.0.0
	github.com/hashicorp/raft v1.8.0
	github.com/hashicorp/raft-boltdb/v2 v2.3.1
	github.com/hashicorp/raft-wal v0.4.2
)

replace github.com/brockdb/brock => ../../..

replace github.com/brockdb/brock/integrations/raft => ..
