// Package status says at a glance whether the exporter is healthy and complete. The status page, its JSON and the command
// exporter status show one Status. It is made from the checkpoint, which knows all replicas, and from what the process that
// answers adds (a live.Snapshot). It knows no object: neither what is in it nor its name.
package status

import (
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/internal/plain"
)

// Status is what is known at one moment.
type Status struct {
	Cluster  string    `json:"cluster"`
	Time     time.Time `json:"time"`
	Healthy  bool      `json:"healthy"`        // nothing is wrong
	Problems []Problem `json:"problems"`       // what is wrong, the worst first
	Past     []Past    `json:"past,omitempty"` // what was wrong in the eyes of the process, the latest first
	Process  *Process  `json:"process,omitempty"`
	Servers  []Server  `json:"servers,omitempty"` // as the process sees them
	Slots    []Slot    `json:"slots"`
	Streams  []Stream  `json:"streams"`         // those with a problem first
	Notes    []string  `json:"notes,omitempty"` // what this does not show, and why
}

// Problem is something wrong.
type Problem struct {
	Component string          `json:"component"` // "sink", "slot 0", "stream pods in shop", "streams"
	Text      string          `json:"problem"`
	Since     time.Time       `json:"since,omitzero"`
	Count     int             `json:"streams,omitempty"` // that have it
	Names     []string        `json:"names,omitempty"`   // of the first of these
	Help      string          `json:"help,omitempty"`    // what to do
	See       string          `json:"see,omitempty"`     // where to read on, as docs/operations.md#kafka
	Stream    change.StreamID `json:"-"`                 // empty: it is not about one stream

	recovery progress // of all streams that have it
}

// Process is the process that answered.
type Process struct {
	Name     string    `json:"name,omitempty"` // as owner of slots
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	Ready    bool      `json:"ready"`
	Standby  string    `json:"standby,omitempty"`  // why it holds no slot, if that is as intended
	Replicas int       `json:"replicas,omitempty"` // that live, this one included
}

// Server is a server that the exporter depends on.
type Server struct {
	Name    string    `json:"name"` // apiserver, sink, checkpoint
	Address string    `json:"address,omitempty"`
	Up      bool      `json:"up"`
	Since   time.Time `json:"since"` // it has been up, or down, in the eyes of this process
}

// Slot is a slot of the layout, and its owner.
type Slot struct {
	Number     int       `json:"slot"`
	Owner      string    `json:"owner,omitempty"` // the last one, unless the slot is held
	Held       bool      `json:"held"`
	Mine       bool      `json:"mine,omitempty"` // this process is the owner
	Epoch      int64     `json:"epoch,omitempty"`
	Batch      uint64    `json:"batch,omitempty"`
	Checkpoint time.Time `json:"checkpoint,omitzero"` // when the last one was stored
	Streams    int       `json:"streams"`

	unrecorded bool // the checkpoint does not say which streams it has
}

// Stream is a stream, without the text of its selectors, which may have the names of objects.
type Stream struct {
	Resource   string                 `json:"resource"`
	Namespace  string                 `json:"namespace,omitempty"` // empty: all
	Selectors  bool                   `json:"selectors,omitempty"` // only some of the objects are exported
	Slot       int                    `json:"slot"`
	State      change.StreamState     `json:"state"`
	StateSince time.Time              `json:"stateSince,omitzero"`
	Position   change.ResourceVersion `json:"resourceVersion,omitempty"` // the log has every change up to here
	Delivered  change.ResourceVersion `json:"delivered,omitempty"`       // while batches go into a spool: the sink has every change up to here
	Confirmed  time.Time              `json:"confirmed,omitzero"`        // when that was known last
	LagSeconds *float64               `json:"lagSeconds,omitempty"`      // since then
	Rate       *float64               `json:"changesPerSecond,omitempty"`
	Gap        *Gap                   `json:"lastGap,omitempty"`
	Proof      *Proof                 `json:"lastProof,omitempty"`
	Problem    string                 `json:"problem,omitempty"`
	Since      time.Time              `json:"problemSince,omitzero"`

	id change.StreamID
}

// Gap is the last gap of a stream that was closed.
type Gap struct {
	Time      time.Time              `json:"time"`
	From      change.ResourceVersion `json:"from"`
	To        change.ResourceVersion `json:"to"`
	Complete  bool                   `json:"complete"`
	Reason    string                 `json:"reason,omitempty"` // why it is not complete
	Recovered int                    `json:"recovered"`        // changes
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

// show takes from a control record what is shown of it.
func (s *Stream) show(c *change.Control) {
	at := time.UnixMilli(c.TimeMs).UTC()
	switch {
	case c.Gap != nil && (s.Gap == nil || !at.Before(s.Gap.Time)):
		g := c.Gap
		s.Gap = &Gap{Time: at, From: g.From, To: g.To, Complete: g.Complete, Reason: plain.HideNames(hideSelectors(g.Reason, s.id)),
			Recovered: g.Recovered, Inferred: g.Inferred}
	case c.Proof != nil && (s.Proof == nil || !at.Before(s.Proof.Time)):
		p := c.Proof
		s.Proof = &Proof{Time: at, At: c.ResourceVersion, Result: p.Result, Objects: p.Objects, Differences: p.Differences()}
	}
}

// Label names a stream as the status does.
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

// hideSelectors puts a stream's label in the place of its id.
func hideSelectors(text string, id change.StreamID) string {
	if !strings.Contains(string(id), "?") {
		return text
	}
	return strings.ReplaceAll(text, string(id), Label(id))
}
