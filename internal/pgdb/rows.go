package pgdb

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Rows are sent to a function as an array for each column, which it turns into rows again by unnest. They are made to be used
// again: a large batch then allocates next to nothing.
type Rows[Row any] struct {
	columns []Column[Row]
	arrays  []array
}

// NewRows gives no rows yet.
func NewRows[Row any](columns []Column[Row]) *Rows[Row] {
	r := &Rows[Row]{columns: columns, arrays: make([]array, len(columns))}
	r.Reset()
	return r
}

// Reset drops the rows.
func (r *Rows[Row]) Reset() {
	for i := range r.columns {
		r.arrays[i].reset(r.columns[i].element)
	}
}

// Add appends a row.
func (r *Rows[Row]) Add(row Row) {
	for i := range r.columns {
		r.columns[i].add(&r.arrays[i], row)
	}
}

// Grow makes room for n more bytes in a column. Without it, a column of megabytes is copied many times while it grows.
func (r *Rows[Row]) Grow(param string, n int) {
	for i := range r.columns {
		if r.columns[i].param == param {
			r.arrays[i].b = slices.Grow(r.arrays[i].b, n)
		}
	}
}

// AppendParams appends the columns to the parameters of a call. They are valid until the next Reset.
func (r *Rows[Row]) AppendParams(params []Param) []Param {
	for i, c := range r.columns {
		params = append(params, Param{c.param, c.array, r.arrays[i].encoded()})
	}
	return params
}

// Column is a column of Rows.
type Column[Row any] struct {
	param          string // the function's parameter
	element, array uint32 // OIDs of their types
	add            func(a *array, row Row)
}

// Int4Column is a column of type int4.
func Int4Column[Row any](param string, of func(Row) int32) Column[Row] {
	return Column[Row]{param, pgtype.Int4OID, pgtype.Int4ArrayOID, func(a *array, row Row) { a.int4(of(row)) }}
}

// BoolColumn is a column of type bool.
func BoolColumn[Row any](param string, of func(Row) bool) Column[Row] {
	return Column[Row]{param, pgtype.BoolOID, pgtype.BoolArrayOID, func(a *array, row Row) { a.bool(of(row)) }}
}

// TextColumn is a column of type text, which Escape is applied to.
func TextColumn[Row any](param string, of func(Row) string) Column[Row] {
	return Column[Row]{param, pgtype.TextOID, pgtype.TextArrayOID, func(a *array, row Row) { a.text(of(row)) }}
}

// TextOrNullColumn is a column of type text, in which an empty text is a null.
func TextOrNullColumn[Row any](param string, of func(Row) string) Column[Row] {
	return Column[Row]{param, pgtype.TextOID, pgtype.TextArrayOID, func(a *array, row Row) {
		if text := of(row); text != "" {
			a.text(text)
		} else {
			a.null()
		}
	}}
}

// TimeColumn is a column of type timestamptz.
func TimeColumn[Row any](param string, of func(Row) time.Time) Column[Row] {
	return Column[Row]{param, pgtype.TimestamptzOID, pgtype.TimestamptzArrayOID, func(a *array, row Row) { a.timestamptz(of(row)) }}
}

// JSONColumn is a column of type json, in which nil is a null.
func JSONColumn[Row any](param string, of func(Row) []byte) Column[Row] {
	return Column[Row]{param, pgtype.JSONOID, pgtype.JSONArrayOID, func(a *array, row Row) { a.json(of(row)) }}
}

// ByteaColumn is a column of type bytea. Of a row that has a value, write appends it to dst; of others there is a null.
func ByteaColumn[Row any](param string, has func(Row) bool, write func(dst []byte, row Row) []byte) Column[Row] {
	return Column[Row]{param, pgtype.ByteaOID, pgtype.ByteaArrayOID, func(a *array, row Row) {
		if has(row) {
			a.encode(func(dst []byte) []byte { return write(dst, row) })
		} else {
			a.null()
		}
	}}
}
