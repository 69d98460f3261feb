package postgres

import (
	"encoding/json"
	"time"

	"kubecdc/change"
	"kubecdc/internal/pgdb"
)

// changeRow is a row of the table changes.
type changeRow struct {
	*change.Change
	last bool // whether it is the last change of its object in the batch
}

var changeColumns = []pgdb.Column[changeRow]{
	pgdb.TimeColumn("change_time", func(r changeRow) time.Time { return r.Time }),
	pgdb.TextColumn("change_op", func(r changeRow) string { return r.Op.String() }),
	pgdb.TextColumn("change_api_version", func(r changeRow) string { return r.Stream.Resource.APIVersion() }),
	pgdb.TextColumn("change_group", func(r changeRow) string { return r.Stream.Resource.Group }),
	pgdb.TextColumn("change_kind", func(r changeRow) string { return r.Stream.Resource.Kind }),
	pgdb.TextColumn("change_resource", func(r changeRow) string { return r.Stream.Resource.Plural }),
	pgdb.TextColumn("change_namespace", func(r changeRow) string { return r.Namespace }),
	pgdb.TextColumn("change_name", func(r changeRow) string { return r.Name }),
	pgdb.TextColumn("change_uid", func(r changeRow) string { return r.UID }),
	pgdb.TextColumn("change_version", func(r changeRow) string { return string(r.ResourceVersion) }),
	pgdb.BoolColumn("change_inferred", func(r changeRow) bool { return r.Inferred }),
	pgdb.TextOrNullColumn("change_gap", func(r changeRow) string { return r.Gap }),
	pgdb.TextColumn("change_stream", func(r changeRow) string { return string(r.Stream.ID()) }),
	pgdb.JSONColumn("change_before", func(r changeRow) []byte { return r.Before }),
	pgdb.JSONColumn("change_after", func(r changeRow) []byte { return r.After }),
	pgdb.BoolColumn("change_last", func(r changeRow) bool { return r.last }),
	pgdb.TimeColumn("change_happened", func(r changeRow) time.Time { at, _ := r.Happened(); return at }),
	pgdb.TextColumn("change_happened_from", func(r changeRow) string { _, from := r.Happened(); return string(from) }),
	pgdb.TextOrNullColumn("change_managers", func(r changeRow) string { return string(r.Told.Managers) }),
	pgdb.TextOrNullColumn("change_fields_changed", func(r changeRow) string { return string(r.Told.Fields) }),
}

// controlRow is a row of the table control.
type controlRow struct {
	*change.Control
	record []byte // all of it, as JSON
}

var controlColumns = []pgdb.Column[controlRow]{
	pgdb.TimeColumn("control_time", func(r controlRow) time.Time { return time.UnixMilli(r.TimeMs) }),
	pgdb.TextColumn("control_type", func(r controlRow) string { return string(r.Type) }),
	pgdb.TextOrNullColumn("control_stream", func(r controlRow) string { return string(r.Stream) }),
	pgdb.JSONColumn("control_record", func(r controlRow) []byte { return r.record }),
}

var deadLetterColumns = []pgdb.Column[*change.Malformed]{
	pgdb.TextColumn("letter_stream", func(m *change.Malformed) string { return string(m.Stream) }),
	pgdb.TextColumn("letter_reason", func(m *change.Malformed) string { return m.Reason }),
	pgdb.ByteaColumn("letter_body", func(*change.Malformed) bool { return true },
		func(dst []byte, m *change.Malformed) []byte { return append(dst, m.Bytes...) }),
}

// batchRows are the rows of one batch. They are used again for the next one.
type batchRows struct {
	changes  *pgdb.Rows[changeRow]
	controls *pgdb.Rows[controlRow]
	letters  *pgdb.Rows[*change.Malformed]
	last     map[objectKey]int // the last change of each object in the batch
}

func newBatchRows() *batchRows {
	return &batchRows{changes: pgdb.NewRows(changeColumns), controls: pgdb.NewRows(controlColumns),
		letters: pgdb.NewRows(deadLetterColumns), last: map[objectKey]int{}}
}

func (r *batchRows) fill(b *change.Batch, clusterUID string) error {
	r.fillChanges(b.Changes)
	r.letters.Reset()
	for i := range b.Malformed {
		r.letters.Add(&b.Malformed[i])
	}
	r.controls.Reset()
	for i := range b.Controls {
		c := &b.Controls[i]
		c.Version, c.ClusterUID = change.LogVersion, clusterUID
		record, err := json.Marshal(c)
		if err != nil {
			return err
		}
		r.controls.Add(controlRow{c, record})
	}
	return nil
}

func (r *batchRows) fillChanges(changes []change.Change) {
	clear(r.last)
	for i := range changes {
		r.last[keyOf(&changes[i])] = i
	}
	r.changes.Reset()
	for i := range changes {
		c := &changes[i]
		r.changes.Add(changeRow{c, r.last[keyOf(c)] == i})
	}
}

func (r *batchRows) appendParams(params []pgdb.Param) []pgdb.Param {
	return r.letters.AppendParams(r.controls.AppendParams(r.changes.AppendParams(params)))
}

// objectKey is the primary key of the table objects, within a cluster.
type objectKey struct{ group, resource, namespace, name string }

func keyOf(c *change.Change) objectKey {
	return objectKey{c.Stream.Resource.Group, c.Stream.Resource.Plural, c.Namespace, c.Name}
}
