// Package provenance finds out who changed what in an object, and when. It uses only the object: its managedFields, its
// timestamps, and the differences between its two states. It reads JSON that was checked before, and does not decode it.
package provenance

import (
	"bytes"
	"strconv"
	"time"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// Reader reads the provenance of a batch's changes. Its memory is used again for each batch.
type Reader struct {
	out    []byte // Managers and Fields of the changes
	before []entry
	after  []entry
	states pair
}

// ReadAll sets the provenance of a batch's changes, which is valid until the next call of ReadAll or Reset.
func (r *Reader) ReadAll(b *change.Batch) {
	r.Reset()
	for i := range b.Changes {
		r.Read(&b.Changes[i])
	}
}

// Reset begins a batch.
func (r *Reader) Reset() { r.out = r.out[:0] }

// Read sets c.Provenance. It is valid until Reset. A time is ignored if it is later than when the exporter observed the change,
// because the clocks differ.
func (r *Reader) Read(c *change.Change) {
	c.Provenance = change.Provenance{}
	switch c.Op {
	case change.Create:
		r.created(c)
	case change.Read:
		m := metadataOf(c.After)
		c.Provenance.Time, c.Provenance.Source = m.newest()
	case change.Update:
		r.updated(c)
	case change.Delete:
		r.deleted(c)
	}
	if c.Provenance.Time.After(c.Time) {
		c.Provenance.Time = time.Time{}
	}
}

// created sets the object's own time and managers, unless the object may be older, and only selected since it was changed.
func (r *Reader) created(c *change.Change) {
	m := metadataOf(c.After)
	if c.Stream.LabelSelector != "" || c.Stream.FieldSelector != "" {
		c.Provenance.Time, c.Provenance.Source = m.newest()
		return
	}
	c.Provenance.Time, c.Provenance.Source = parseTime(m.created), change.FromCreationTimestamp
	if c.Inferred {
		return // others may have changed it since
	}
	from := len(r.out)
	for raw := range elements(m.managedFields, 1) {
		e := readEntry(raw)
		r.addManager(from, &e)
	}
	c.Provenance.Managers = r.since(from)
}

// deleted sets the end of the grace period, unless something is known to have happened later. Otherwise the object does not show
// when it was deleted. Its deletionTimestamp is when the deletion was requested.
func (r *Reader) deleted(c *change.Change) {
	m := metadataOf(c.Before)
	if m.deleted == nil {
		return
	}
	end := parseTime(m.deleted)
	if last, _ := m.newest(); end.After(last) {
		c.Provenance.Time, c.Provenance.Source = end, change.FromDeletionTimestamp
	}
}

// metadata has the times in an object's metadata.
type metadata struct {
	created, deleted []byte // times, as text
	grace            []byte // a number of seconds
	managedFields    []byte
}

// metadataOf reads the metadata of an object.
func metadataOf(object []byte) (m metadata) {
	c := rawjson.NewCursor(object)
	c.Enter()
	for name, more := c.Member(); more; name, more = c.Member() {
		if string(name) == "metadata" && c.AtObject() {
			m.read(&c)
			break
		}
		c.Skip()
	}
	return m
}

func (m *metadata) read(c *rawjson.Cursor) {
	c.Enter()
	for name, more := c.Member(); more; name, more = c.Member() {
		if string(name) == "managedFields" {
			m.managedFields = managedFields(c)
			continue
		}
		switch value := c.Skip(); string(name) {
		case "creationTimestamp":
			m.created = timeOf(value)
		case "deletionTimestamp":
			m.deleted = timeOf(value)
		case "deletionGracePeriodSeconds":
			m.grace = value
		}
	}
}

// newest returns the last time at which the object is known to have changed.
func (m *metadata) newest() (moment time.Time, from change.TimeSource) {
	last := m.created
	from = change.FromCreationTimestamp
	if managed := newestTime(m.managedFields); bytes.Compare(managed, last) >= 0 {
		last, from = managed, change.FromManagedFields
	}
	moment = parseTime(last)
	if requested := m.requested(); requested.After(moment) {
		moment, from = requested, change.FromDeletionTimestamp
	}
	return moment, from
}

// requested returns when the deletion was requested, or zero if it was not. deletionTimestamp is the end of the grace period.
func (m *metadata) requested() time.Time {
	if m.deleted == nil {
		return time.Time{}
	}
	seconds, _ := strconv.ParseInt(string(m.grace), 10, 32)
	return parseTime(m.deleted).Add(-time.Duration(seconds) * time.Second)
}

// timeOf returns the inside of a timestamp as the API server writes it, or nil for anything else. It is in UTC and has seconds,
// so that the order of bytes is the order of times.
func timeOf(value []byte) []byte {
	const layout = `"2006-01-02T15:04:05Z"`
	if len(value) != len(layout) || value[0] != '"' || value[len(layout)-2] != 'Z' {
		return nil
	}
	return value[1 : len(layout)-1]
}

// parseTime returns the time of a text from timeOf. For any other text it returns zero.
func parseTime(text []byte) (t time.Time) {
	if text != nil {
		t, _ = time.Parse(time.RFC3339, string(text))
	}
	return t
}

// since returns what was appended to r.out.
func (r *Reader) since(from int) []byte { return r.out[from:len(r.out):len(r.out)] }
