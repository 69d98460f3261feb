package change

import (
	"strings"
	"time"
)

// Provenance is what an object records about its own change. A sink may refer to it until the batch is written.
type Provenance struct {
	Time   time.Time // when the change happened; zero: the object does not tell
	Source TimeSource
	// Managers are the field managers that made the change, with commas between. Empty: not known.
	Managers []byte
	// Fields are the paths that an update changed, with commas between: spec.replicas,status.conditions. Empty: not known, or
	// only the fields that every update changes.
	Fields []byte
}

// TimeSource is what the time of a change is from.
type TimeSource string

const (
	FromManagedFields     TimeSource = "managedFields"
	FromCreationTimestamp TimeSource = "creationTimestamp"
	FromDeletionTimestamp TimeSource = "deletionTimestamp"
	FromExporter          TimeSource = "exporter" // when the exporter saw it
)

// Happened returns when the change happened: the object's word if there is one, else when the exporter saw it.
func (c *Change) Happened() (time.Time, TimeSource) {
	if c.Provenance.Time.IsZero() {
		return c.Time, FromExporter
	}
	return c.Provenance.Time, c.Provenance.Source
}

// ManagerNames returns the names of the managers.
func (p *Provenance) ManagerNames() (names []string) {
	if len(p.Managers) == 0 {
		return nil
	}
	// names have no such characters
	joined := strings.NewReplacer(`\\`, `\`, `\,`, "\x00", `,`, "\x01").Replace(string(p.Managers))
	for name := range strings.SplitSeq(joined, "\x01") {
		names = append(names, strings.ReplaceAll(name, "\x00", ","))
	}
	return names
}
