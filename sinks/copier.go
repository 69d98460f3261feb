package sinks

import (
	"context"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
)

// Copier is a Reader whose log another file can follow, batch by batch.
type Copier interface {
	ReadCloser
	// Identity identifies the log, and what it was made of. Cuts of one log mean nothing in another.
	Identity(ctx context.Context) (string, error)
	// Beginning returns the first cut after which the log has each batch record. The log may lack changes before it, but not the last one of
	// a live object. The zero cut is the log's own beginning. Beginning also returns the time of the cut, and what the log has lost without
	// a gap record, by resource.
	Beginning(ctx context.Context) (after Cut, logged time.Time, lost map[string]string, err error)
	// Copy visits the batches after a cut in the order of the log, up to its present end, and some of those before. They come in groups of a
	// few MB, each with the cut after it. The last group may be empty. It returns ErrNotRetained if batch records after the cut are gone.
	Copy(ctx context.Context, after Cut, visit func([]Copied, Cut) error) error
	// End returns the cut after all that Copy would visit now, without Batches.
	End(ctx context.Context) (Cut, error)
	// CopyAudits visits the audit records after a cut, and returns the cut after them.
	CopyAudits(ctx context.Context, after Cut, visit func(*audit.Record) error) (Cut, error)
}

// Copied is a batch of a log, without what is implied by it.
type Copied struct {
	change.Batch
	Logged time.Time
	Stubs  map[int]string // the dead letters of changes that are stubs, by the index of the change
	Lacks  []string       // resources that may have lost changes of this batch in the log, by compaction
}
