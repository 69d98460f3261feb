package sinks

// Kind has the properties of a sink that are known before it is opened. Each sink has one, and package setup has the table.
type Kind struct {
	Name string // the value of KUBECDC_SINK
	Page string // the page about its failures
	// CheckpointMayForget means that a batch can be read back even after the checkpoint has it. Then a checkpoint in Postgres
	// commits without waiting for its disk. Batches that it loses in a crash are read back from the log.
	CheckpointMayForget bool
	// RebuildsCheckpoint means that a lost checkpoint can be rebuilt from the log, which can be read back and is not in the
	// checkpoint's file.
	RebuildsCheckpoint bool
	// InCheckpoint means that the log is in the checkpoint's file, and is its own memory (Opened.Memory).
	InCheckpoint bool
	// Spools means that batches go into a spool while the sink does not accept them.
	Spools bool
	// SnapshotTopics means that a snapshot on demand can be written to separate topics.
	SnapshotTopics bool
	// Deltas means that a state is written as its difference from an earlier one in the log. So before-images are always read.
	// Who changed what is found when the log is read, and is not written.
	Deltas bool
	// Copies are the ways in which the log finds live objects, each to be compared with the cluster. If it is empty, every change
	// is read.
	Copies []Each
}
