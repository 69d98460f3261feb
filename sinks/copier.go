package sinks

import (
	"context"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
)

// Copier is a Reader whose log another file can follow, batch by batch. It copies all clusters of the log, and cuts have no
// Batches.
type Copier interface {
	ReadCloser
	// Identity identifies the log, and what it was made of. Cuts of one log mean nothing in another.
	Identity(ctx context.Context) (string, error)
	// Beginning returns the first cut after which the log has each batch record. The log may lack changes before it, but not the
	// last one of a live object.
	Beginning(ctx context.Context) (*Beginning, error)
	// Lived visits the changes before a beginning that has a time.
	Lived(ctx context.Context, b *Beginning, progress func(read, total int64), visit func(*Logged) error) error
	// Copy visits the batches after a cut in the order of the log, up to its present end, and some of those before. They come in
	// groups of a few MB, each with the cut after it. The last group may be empty. It returns ErrNotRetained if batch records
	// after the cut are gone.
	Copy(ctx context.Context, after Cut, visit func([]Copied, Cut) error) error
	// End returns the cut after all that Copy would visit now.
	End(ctx context.Context) (Cut, error)
	// CopyAudits visits the audit records after a cut, with their clusters, and returns the cut after them.
	CopyAudits(ctx context.Context, after Cut, visit func(*audit.Record) error) (Cut, error)
}

// Beginning is where a copy begins.
type Beginning struct {
	After   Cut              // zero: the log's own beginning
	Logged  time.Time        // the time of the cut, or zero
	Batches map[string]Place // by cluster: the last batches before it
	// by cluster and resource: what was lost without a gap record. "" is a cluster without control records
	Lost map[string]map[string]string
}

// SlotID is a slot of one of the clusters of a log.
type SlotID struct {
	Cluster string
	Slot    int
}

// Copied is a batch of a log, without what is implied by it.
type Copied struct {
	Cluster string
	change.Batch
	Logged time.Time
	Stubs  map[int]string // the dead letters of changes that are stubs, by the index of the change
	Lacks  []string       // resources that may have lost changes of this batch in the log, by compaction
}
