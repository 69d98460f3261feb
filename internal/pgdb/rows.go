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

func NewRows[Row any](columns []Column[Row]) *Rows[Row] {
	r := &Rows[Row]{columns: columns, arrays: make([]array, len(columns))}
	r.Reset()
	return r
}

func (r *Rows[Row]) Reset() {
	for i := range r.columns {
		r.arrays[i].reset(r.columns[i].element)
	}
}

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

// Elements returns the values of a column, each after its length.
func (p *Param) Elements() []byte { return p.Value[min(len(p.Value), arrayHeader):] }

type Column[Row any] struct {
	param          string // the function's parameter
	element, array uint32 // OIDs of their types
	add            func(a *array, row Row)
}

// NewColumn makes a column of a type, of what a row has for it.
func NewColumn[Row, V any](param string, kind Type[V], value func(Row) V) Column[Row] {
	return Column[Row]{param, kind.element, kind.array, func(a *array, row Row) { kind.add(a, value(row)) }}
}

type Type[V any] struct {
	element, array uint32
	add            func(*array, V)
}

// The types. A nil json or bytea is a null.
var (
	TypeInt4        = Type[int32]{pgtype.Int4OID, pgtype.Int4ArrayOID, (*array).int4}
	TypeBool        = Type[bool]{pgtype.BoolOID, pgtype.BoolArrayOID, (*array).bool}
	TypeText        = Type[string]{pgtype.TextOID, pgtype.TextArrayOID, (*array).text} // escaped (Escape)
	TypeTextOrNull  = Type[string]{pgtype.TextOID, pgtype.TextArrayOID, (*array).textOrNull}
	TypeTimestamptz = Type[time.Time]{pgtype.TimestamptzOID, pgtype.TimestamptzArrayOID, (*array).timestamptz}
	TypeJSON        = Type[[]byte]{pgtype.JSONOID, pgtype.JSONArrayOID, (*array).json}
	TypeBytea       = Type[[]byte]{pgtype.ByteaOID, pgtype.ByteaArrayOID, (*array).bytea}
)
