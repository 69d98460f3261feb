package sinks

// Kind is what is known of a sink before it is opened. Each implementation has one; cmd/exporter has the table of all.
type Kind struct {
	Name string // as KUBECDC_SINK has it
	// CheckpointMayForget: a batch can be read back even after the checkpoint acknowledged it. A checkpoint in Postgres then
	// does not wait for its disk: what it forgets in a crash, the log tells again.
	CheckpointMayForget bool
	// Stdout: records go to the process's own standard output.
	Stdout bool
}
