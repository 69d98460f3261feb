package postgres

import (
	"sync"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/pgdb"
)

// The rows of a commit name their stream by its id in the table streams.
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
	pgdb.Int4Column("position_streams", func(r positionRow) int32 { return r.stream }),
	pgdb.TextColumn("position_versions", func(r positionRow) string { return string(r.ResourceVersion) }),
	pgdb.TimeColumn("position_times", func(r positionRow) time.Time { return r.Time }),
	pgdb.TextColumn("position_ends", func(r positionRow) string { return string(r.Ended) }),
}

var deleteColumns = []pgdb.Column[deleteRow]{
	pgdb.Int4Column("delete_streams", func(r deleteRow) int32 { return r.stream }),
	pgdb.TextColumn("delete_keys", func(r deleteRow) string { return r.key }),
}

var upsertColumns = []pgdb.Column[upsertRow]{
	pgdb.Int4Column("upsert_streams", func(r upsertRow) int32 { return r.stream }),
	pgdb.TextColumn("upsert_keys", func(r upsertRow) string { return r.Key }),
	pgdb.TextColumn("upsert_uids", func(r upsertRow) string { return r.UID }),
	pgdb.TextColumn("upsert_versions", func(r upsertRow) string { return string(r.ResourceVersion) }),
	pgdb.ByteaColumn("upsert_bodies", func(r upsertRow) bool { return r.Body.Base != nil },
		func(dst []byte, r upsertRow) []byte { return append(dst, r.Body.Base...) }),
	pgdb.ByteaColumn("upsert_deltas", func(r upsertRow) bool { return r.Body.Delta != nil },
		func(dst []byte, r upsertRow) []byte { return append(dst, r.Body.Delta...) }),
}

// commitRows are the rows of one commit. They are used again and again, so that a commit allocates next to nothing.
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
	size := 0
	for _, s := range c.Streams {
		for i := range s.Upserts {
			size += 4 + len(s.Upserts[i].Body.Base)
		}
	}
	r.upserts.Grow("upsert_bodies", size)
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

// inventory appends the changes of the inventory to the parameters of a call.
func (r *commitRows) inventory(params []pgdb.Param) []pgdb.Param {
	return r.upserts.AppendParams(r.deletes.AppendParams(params))
}
