package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Proven is the comparison of a log with the last proof of a stream in it.
type Proven struct {
	Stream          change.StreamID        `json:"stream"`
	ResourceVersion change.ResourceVersion `json:"resourceVersion"` // of the proof
	Logged          time.Time              `json:"logged"`          // when the log got it
	Proof           *change.Proof          `json:"proof"`
	Objects         int                    `json:"objects"` // of the log, by folding
	Digest          string                 `json:"digest"`
	Equal           bool                   `json:"equal"`
	Problem         string                 `json:"problem,omitempty"` // why it can't be compared
}

// Proofs folds a log up to the last proof of each stream, without the API server, and compares the digests.
func Proofs(ctx context.Context, r sinks.Reader, wanted func(resource string) bool) ([]Proven, error) {
	last, positions := map[change.StreamID]*change.Control{}, map[change.StreamID]change.ResourceVersion{}
	err := r.Controls(ctx, time.Time{}, func(c *change.Control) error {
		for _, p := range c.Positions {
			positions[p.Stream] = p.ResourceVersion
		}
		if c.Type == change.ControlProof && c.Proof != nil && wanted(change.ResourceOf(c.Stream).ID()) {
			kept := *c
			last[c.Stream] = &kept
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := []Proven{}
	for _, stream := range slices.Sorted(maps.Keys(last)) {
		p, err := proven(ctx, r, last[stream], positions[stream])
		if err != nil {
			return nil, fmt.Errorf("fold the log of %s: %w", stream, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// proven compares the log with a proof. No version is newer than the stream's position now: one that is was never the API server's.
func proven(ctx context.Context, r sinks.Reader, c *change.Control, now change.ResourceVersion) (Proven, error) {
	p := Proven{Stream: c.Stream, ResourceVersion: c.ResourceVersion, Logged: time.UnixMilli(c.TimeMs), Proof: c.Proof}
	s := change.ParseStream(c.Stream)
	since, err := r.KeptSince(ctx, s.Resource.ID())
	if err != nil {
		return p, err
	}
	_, tables := r.(sinks.TableReader)
	switch {
	case c.Proof.Result == change.ProofUnsupported:
		p.Problem = "no proof can be made of it: " + c.Proof.Cause
		return p, nil
	case since.After(p.Logged) || tables && !since.IsZero(): // a table of changes keeps no last states
		p.Problem = "the log does not have every change any more that was logged before " + since.Format(time.RFC3339)
		return p, nil
	}
	// Up to the proof's batch; of another slot, which had the stream under another number of slots, up to the proof's time.
	at := point{c.Slot, c.Batch, p.Logged}
	state, err := fold(ctx, r, s, nil, func(l *sinks.Logged) bool {
		never := now != "" && l.ResourceVersion.Compare(now) > 0
		return (l.ResourceVersion.Compare(c.ResourceVersion) <= 0 || never) && at.has(l)
	})
	if err != nil {
		return p, err
	}
	var d change.Digest
	for key, o := range state {
		if !o.other {
			d.Add(key, o.UID, o.Version)
		}
	}
	p.Objects, p.Digest = d.Objects, d.String()
	p.Equal = p.Digest == c.Proof.Digest && p.Objects == c.Proof.Objects
	if c.Proof.Masked && !p.Equal && p.Objects == c.Proof.Objects {
		p.Problem = "updates that the settings ignore are not in the log, so it has older versions than the proof"
	}
	return p, nil
}
