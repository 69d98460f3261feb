package sinks

// Kind has the properties of a sink that are known before it is opened. Each implementation has one; package setup has the table.
type Kind struct {
	Name string // as KUBECDC_SINK has it
	// CheckpointMayForget: a batch can be read back even after the checkpoint has it. A checkpoint in Postgres then commits
	// without waiting for its disk: batches that it loses in a crash are read back from the log.
	CheckpointMayForget bool
	// RebuildsCheckpoint: a lost checkpoint can be rebuilt from the log, which can be read back and is not in the checkpoint's file.
	RebuildsCheckpoint bool
	// InCheckpoint: the log is in the checkpoint's file, and remembers what it has (Opened.Memory).
	InCheckpoint bool
	// Spools: batches go into a spool while the sink does not take them.
	Spools bool
	// SnapshotTopics: a snapshot on demand can be written to topics of its own.
	SnapshotTopics bool
	// Deltas: a state is written as what differs from an earlier one, which the log has too. So before-images are always read, and who
	// changed what is found when the log is read, and is not written.
	Deltas bool
	// Copies are how the log finds what lives now, each to be compared with the cluster; empty: by reading every change.
	Copies []Each
}
