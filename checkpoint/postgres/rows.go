package postgres

import (
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/pgdb"
)

// The rows of a commit refer to their stream by its id in the table streams.
type (
	positionRow struct {
		stream int32
		*change.Position
	}
	deleteRow struct {
		stream int32
		key    string
	}
	upsertRow struct {
		stream int32
		*checkpoint.Object
	}
)

var positionColumns = []pgdb.Column[positionRow]{
	pgdb.NewColumn("position_streams", pgdb.TypeInt4, func(r positionRow) int32 { return r.stream }),
	pgdb.NewColumn("position_versions", pgdb.TypeText, func(r positionRow) string { return string(r.ResourceVersion) }),
	pgdb.NewColumn("position_times", pgdb.TypeTimestamptz, func(r positionRow) time.Time { return r.Time }),
	pgdb.NewColumn("position_ends", pgdb.TypeText, func(r positionRow) string { return string(r.Ended) }),
}

var deleteColumns = []pgdb.Column[deleteRow]{
	pgdb.NewColumn("delete_streams", pgdb.TypeInt4, func(r deleteRow) int32 { return r.stream }),
	pgdb.NewColumn("delete_keys", pgdb.TypeText, func(r deleteRow) string { return r.key }),
}

var upsertColumns = []pgdb.Column[upsertRow]{
	pgdb.NewColumn("upsert_streams", pgdb.TypeInt4, func(r upsertRow) int32 { return r.stream }),
	pgdb.NewColumn("upsert_keys", pgdb.TypeText, func(r upsertRow) string { return r.Key }),
	pgdb.NewColumn("upsert_uids", pgdb.TypeText, func(r upsertRow) string { return r.UID }),
	pgdb.NewColumn("upsert_versions", pgdb.TypeText, func(r upsertRow) string { return string(r.ResourceVersion) }),
	pgdb.NewColumn("upsert_bodies", pgdb.TypeBytea, func(r upsertRow) []byte { return r.Body.Base }),
	pgdb.NewColumn("upsert_deltas", pgdb.TypeBytea, func(r upsertRow) []byte { return r.Body.Delta }),
}

// commitRows are the rows of one commit. They are reused, so that a commit allocates next to nothing.
type commitRows struct {
	positions *pgdb.Rows[positionRow]
	deletes   *pgdb.Rows[deleteRow]
	upserts   *pgdb.Rows[upsertRow]
}

var commitPool = sync.Pool{New: func() any {
	return &commitRows{pgdb.NewRows(positionColumns), pgdb.NewRows(deleteColumns), pgdb.NewRows(upsertColumns)}
}}

func (r *commitRows) fill(c checkpoint.Commit, ids map[change.StreamID]int32) {
	r.positions.Reset()
	r.deletes.Reset()
	r.upserts.Reset()
	for i := range c.Positions {
		p := &c.Positions[i]
		r.positions.Add(positionRow{ids[p.Stream], p})
	}
	bases, deltas := 0, 0
	for _, s := range c.Streams {
		for i := range s.Upserts {
			bases += 4 + len(s.Upserts[i].Body.Base)
			deltas += 4 + len(s.Upserts[i].Body.Delta)
		}
	}
	r.upserts.Grow("upsert_bodies", bases)
	r.upserts.Grow("upsert_deltas", deltas)
	for _, s := range c.Streams {
		id := ids[s.Stream]
		for _, key := range s.Deletes {
			r.deletes.Add(deleteRow{id, key})
		}
		for i := range s.Upserts {
			r.upserts.Add(upsertRow{id, &s.Upserts[i]})
		}
	}
}

// inventory appends the inventory's changes to the parameters of a call.
func (r *commitRows) inventory(params []pgdb.Param) []pgdb.Param {
	return r.upserts.AppendParams(r.deletes.AppendParams(params))
}
