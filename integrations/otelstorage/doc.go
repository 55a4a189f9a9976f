// Package otelstorage is a storage extension of the OpenTelemetry Collector that keeps its data
// in a Brock store. Exporters keep their persistent sending queues in it, receivers their
// checkpoints. Its name in a configuration is brock_storage; Config documents the options.
//
// All clients share one store, each with a keyspace of its own. So they share its limits of
// memory and disk space and, if durability is synced, also the syncs. Disk space comes back by
// itself: there is nothing to compact.
//
// # Use
//
// A collector contains the extension if NewFactory is among its extension factories. The builder
// of the collector does that for this line of its configuration:
//
//	extensions:
//	  - gomod: github.com/brockdb/brock/integrations/otelstorage v0.1.0
package otelstorage
