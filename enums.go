package brock

import "strconv"

// The enumerations print themselves by the names of their constants, as logs and %v show Options.

// nameOf returns the i-th of names or, if there is none, kind(i).
func nameOf[T ~uint8](i T, kind string, names ...string) string {
	if int(i) < len(names) && names[i] != "" {
		return names[i]
	}
	return kind + "(" + strconv.Itoa(int(i)) + ")"
}

// String is the name of the constant.
func (m OpenMode) String() string { return nameOf(m, "OpenMode", "ReadWrite", "ReadOnly", "Follow") }

// String is the name of the constant.
func (r Recovery) String() string { return nameOf(r, "Recovery", "Strict", "UpTo") }

// String is the name of the constant.
func (d Durability) String() string {
	return nameOf(d, "Durability", "DefaultDurability", "Synced", "Buffered")
}

// String is the name of the constant.
func (c Compression) String() string {
	return nameOf(c, "Compression", "DefaultCompression", "NoCompression", "S2", "Zstd")
}

// String is the name of the constant.
func (i Isolation) String() string {
	return nameOf(i, "Isolation", "Serializable", "SnapshotIsolation", "LastWriterWins")
}

// String is the name of the constant.
func (k MetricKind) String() string {
	return nameOf(k, "MetricKind", "", "CounterMetric", "GaugeMetric")
}

// String is the kind in one or two words.
func (k ChangeKind) String() string {
	return nameOf(k, "ChangeKind", "", "set", "delete", "delete range", "keyspace created", "keyspace dropped")
}
