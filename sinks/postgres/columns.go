package postgres

import (
	"encoding/json"
	"time"

	"kubecdc/change"
	"kubecdc/internal/pgdb"
)

type changeRow struct {
	*change.Change
	last bool // this is the last change of its object in the batch
}

var changeColumns = []pgdb.Column[changeRow]{
	pgdb.NewColumn("change_time", pgdb.TypeTimestamptz, func(r changeRow) time.Time { return r.Time }),
	pgdb.NewColumn("change_op", pgdb.TypeText, func(r changeRow) string { return r.Op.String() }),
	pgdb.NewColumn("change_api_version", pgdb.TypeText, func(r changeRow) string { return r.Stream.Resource.APIVersion() }),
	pgdb.NewColumn("change_group", pgdb.TypeText, func(r changeRow) string { return r.Stream.Resource.Group }),
	pgdb.NewColumn("change_kind", pgdb.TypeText, func(r changeRow) string { return r.Stream.Resource.Kind }),
	pgdb.NewColumn("change_resource", pgdb.TypeText, func(r changeRow) string { return r.Stream.Resource.Plural }),
	pgdb.NewColumn("change_namespace", pgdb.TypeText, func(r changeRow) string { return r.Namespace }),
	pgdb.NewColumn("change_name", pgdb.TypeText, func(r changeRow) string { return r.Name }),
	pgdb.NewColumn("change_uid", pgdb.TypeText, func(r changeRow) string { return r.UID }),
	pgdb.NewColumn("change_version", pgdb.TypeText, func(r changeRow) string { return string(r.ResourceVersion) }),
	pgdb.NewColumn("change_inferred", pgdb.TypeBool, func(r changeRow) bool { return r.Inferred }),
	pgdb.NewColumn("change_gap", pgdb.TypeTextOrNull, func(r changeRow) string { return r.Gap }),
	pgdb.NewColumn("change_stream", pgdb.TypeText, func(r changeRow) string { return string(r.Stream.ID()) }),
	pgdb.NewColumn("change_before", pgdb.TypeJSON, func(r changeRow) []byte { return r.Before }),
	pgdb.NewColumn("change_after", pgdb.TypeJSON, func(r changeRow) []byte { return r.After }),
	pgdb.NewColumn("change_last", pgdb.TypeBool, func(r changeRow) bool { return r.last }),
	pgdb.NewColumn("change_happened", pgdb.TypeTimestamptz,
		func(r changeRow) time.Time { happened, _ := r.Happened(); return happened }),
	pgdb.NewColumn("change_happened_from", pgdb.TypeText,
		func(r changeRow) string { _, from := r.Happened(); return string(from) }),
	pgdb.NewColumn("change_managers", pgdb.TypeTextOrNull, func(r changeRow) string { return string(r.Provenance.Managers) }),
	pgdb.NewColumn("change_fields_changed", pgdb.TypeTextOrNull, func(r changeRow) string { return string(r.Provenance.Fields) }),
}

type controlRow struct {
	*change.Control
	record []byte // the record in full, as JSON
}

var controlColumns = []pgdb.Column[controlRow]{
	pgdb.NewColumn("control_time", pgdb.TypeTimestamptz, func(r controlRow) time.Time { return time.UnixMilli(r.TimeMs) }),
	pgdb.NewColumn("control_type", pgdb.TypeText, func(r controlRow) string { return string(r.Type) }),
	pgdb.NewColumn("control_stream", pgdb.TypeTextOrNull, func(r controlRow) string { return string(r.Stream) }),
	pgdb.NewColumn("control_record", pgdb.TypeJSON, func(r controlRow) []byte { return r.record }),
}

var deadLetterColumns = []pgdb.Column[*change.Malformed]{
	pgdb.NewColumn("letter_stream", pgdb.TypeText, func(m *change.Malformed) string { return string(m.Stream) }),
	pgdb.NewColumn("letter_reason", pgdb.TypeText, func(m *change.Malformed) string { return m.Reason }),
	pgdb.NewColumn("letter_body", pgdb.TypeBytea, func(m *change.Malformed) []byte { return append([]byte{}, m.Bytes...) }),
}

// batchRows are the rows of one batch. Their memory is used again for the next one.
type batchRows struct {
	changes  *pgdb.Rows[changeRow]
	controls *pgdb.Rows[controlRow]
	letters  *pgdb.Rows[*change.Malformed]
	last     map[objectKey]int // each object's last change in the batch
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
