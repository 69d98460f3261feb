// Package status shows at a glance whether the exporter is healthy and complete. The status page, its JSON and the command
// exporter status show one Status. It is made from the checkpoint, which has all replicas, and from a live.Snapshot of the
// process that answers. It has no contents or names of objects.
package status

import (
	"cmp"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/export/live"
	"kubecdc/internal/plain"
)

// Status is the state of the exporter at one moment.
type Status struct {
	Cluster  string          `json:"cluster"`
	Time     time.Time       `json:"time"`
	Healthy  bool            `json:"healthy"`        // there are no problems
	Problems []Problem       `json:"problems"`       // the worst first
	Past     []Problem       `json:"past,omitempty"` // past problems of the process, the latest first
	Process  *Process        `json:"process,omitempty"`
	Servers  []Server        `json:"servers,omitempty"` // as the process sees them
	Log      *change.LogSize `json:"log,omitempty"`     // nil: not known
	Slots    []Slot          `json:"slots"`
	Streams  []Stream        `json:"streams"`         // streams with a problem first
	Notes    []string        `json:"notes,omitempty"` // what the status lacks, and why
}

// Problem is something that is wrong.
type Problem struct {
	Component string `json:"component"` // "sink", "slot 0", "stream pods in shop", "streams"
	live.Problem
	Count  int             `json:"streams,omitempty"` // number of streams with the problem
	Names  []string        `json:"names,omitempty"`   // names of the first of these streams
	Help   string          `json:"help,omitempty"`    // what to do
	See    string          `json:"see,omitempty"`     // the page about it, such as docs/operations.md#kafka
	Stream change.StreamID `json:"-"`                 // empty: not about one stream
	Until  time.Time       `json:"until,omitzero"`    // when it ended, if it has

	streams map[change.StreamID]bool // that have it
}

func (p *Problem) why() string { return cmp.Or(p.Cause, p.Text) }

// Process is the process that answered.
type Process struct {
	Name     string    `json:"name,omitempty"` // the name of a slot's owner
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	Ready    bool      `json:"ready"`
	Standby  string    `json:"standby,omitempty"`  // why it intentionally holds no slot
	Replicas int       `json:"replicas,omitempty"` // number of live replicas, including this one
}

// Server is a server that the exporter depends on.
type Server struct {
	Name    string    `json:"name"` // apiserver, sink, checkpoint
	Address string    `json:"address,omitempty"`
	Up      bool      `json:"up"`
	Since   time.Time `json:"since"` // since when it has been up or down, as the process sees it
}

// Slot is a slot of the layout, and its owner.
type Slot struct {
	Number     int       `json:"slot"`
	Owner      string    `json:"owner,omitempty"` // the last owner, if the slot is not held
	Held       bool      `json:"held"`
	Mine       bool      `json:"mine,omitempty"` // this process is the owner
	Epoch      int64     `json:"epoch,omitempty"`
	Batch      uint64    `json:"batch,omitempty"`
	Checkpoint time.Time `json:"checkpoint,omitzero"` // when the last checkpoint was stored
	Streams    int       `json:"streams"`

	unrecorded bool // the checkpoint does not say which streams it has
}

// Stream is a stream, without the text of its selectors, which may contain names of objects.
type Stream struct {
	Resource   string                 `json:"resource"`
	Namespace  string                 `json:"namespace,omitempty"` // empty: all
	Selectors  bool                   `json:"selectors,omitempty"` // only some of the objects are exported
	Slot       int                    `json:"slot"`
	State      change.StreamState     `json:"state"`
	StateSince time.Time              `json:"stateSince,omitzero"`
	Position   change.ResourceVersion `json:"resourceVersion,omitempty"` // the log has every change up to here
	// with a spool, the position up to which the sink has every change
	Delivered  change.ResourceVersion `json:"delivered,omitempty"`
	Confirmed  time.Time              `json:"confirmed,omitzero"`   // when the stream was last known to be complete there
	LagSeconds *float64               `json:"lagSeconds,omitempty"` // since Confirmed
	Rate       *float64               `json:"changesPerSecond,omitempty"`
	Gap        *Gap                   `json:"lastGap,omitempty"`
	Proof      *Proof                 `json:"lastProof,omitempty"`
	Problem    string                 `json:"problem,omitempty"`
	Since      time.Time              `json:"problemSince,omitzero"`

	id    change.StreamID
	wrong live.Problem // what Problem and Since are of
}

// Gap is the last closed gap of a stream.
type Gap struct {
	Time      time.Time              `json:"time"`
	From      change.ResourceVersion `json:"from"`
	To        change.ResourceVersion `json:"to"`
	Complete  bool                   `json:"complete"`
	Reason    string                 `json:"reason,omitempty"` // why it is not complete
	Recovered int                    `json:"recovered"`        // number of changes
	Inferred  int                    `json:"inferred"`
}

// Proof is the last comparison of a stream's objects with the API server's.
type Proof struct {
	Time        time.Time              `json:"time"`
	At          change.ResourceVersion `json:"resourceVersion"`
	Result      change.ProofResult     `json:"result"`
	Objects     int                    `json:"objects"`
	Differences int                    `json:"differences"`
}

// show copies from a control record what the status shows.
func (s *Stream) show(c *change.Control) {
	t := time.UnixMilli(c.TimeMs).UTC()
	switch {
	case c.Gap != nil && (s.Gap == nil || !t.Before(s.Gap.Time)):
		g := c.Gap
		s.Gap = &Gap{Time: t, From: g.From, To: g.To, Complete: g.Complete,
			Reason:    plain.HideNames(hideSelectors(g.Reason, s.id)),
			Recovered: g.Recovered, Inferred: g.Inferred}
	case c.Proof != nil && (s.Proof == nil || !t.Before(s.Proof.Time)):
		p := c.Proof
		s.Proof = &Proof{Time: t, At: c.ResourceVersion, Result: p.Result, Objects: p.Objects, Differences: p.Differences()}
	}
}

// Label returns the name of a stream in the status.
func Label(id change.StreamID) string {
	s := change.ParseStream(id)
	label := s.Resource.ID()
	if s.Namespace != "" {
		label += " in " + s.Namespace
	}
	if s.LabelSelector != "" || s.FieldSelector != "" {
		label += " (by selectors)"
	}
	return label
}

// hideSelectors replaces a stream's id in a text by its label.
func hideSelectors(text string, id change.StreamID) string {
	if !strings.Contains(string(id), "?") {
		return text
	}
	return strings.ReplaceAll(text, string(id), Label(id))
}
