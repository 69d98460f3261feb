package postgres

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"kubecdc/change"
	"kubecdc/internal/pgdb"
)

// changeColumns are the changes of a batch as arrays, one for each column.
type changeColumns struct {
	time, op, apiVersion, group, kind, resource, namespace, name, uid, version pgdb.Array
	inferred, gap, stream, before, after, last                                 pgdb.Array
}

var changeTypes = []uint32{
	pgtype.TimestamptzArrayOID, pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.TextArrayOID,
	pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.TextArrayOID,
	pgtype.BoolArrayOID, pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.JSONArrayOID, pgtype.JSONArrayOID,
	pgtype.BoolArrayOID,
}

func (c *changeColumns) all() []*pgdb.Array {
	return []*pgdb.Array{&c.time, &c.op, &c.apiVersion, &c.group, &c.kind, &c.resource, &c.namespace, &c.name, &c.uid,
		&c.version, &c.inferred, &c.gap, &c.stream, &c.before, &c.after, &c.last}
}

func (c *changeColumns) fill(changes []change.Change, last map[place]int) {
	reset(c.all(), changeTypes)
	for i := range changes {
		ch := &changes[i]
		c.add(ch, last[placeOf(ch)] == i)
	}
}

func (c *changeColumns) add(ch *change.Change, last bool) {
	r := &ch.Stream.Resource
	c.time.Time(ch.Time)
	c.op.Text(ch.Op.String())
	c.apiVersion.Text(r.APIVersion())
	c.group.Text(r.Group)
	c.kind.Text(r.Kind)
	c.resource.Text(r.Plural)
	c.namespace.Text(ch.Namespace)
	c.name.Text(ch.Name)
	c.uid.Text(ch.UID)
	c.version.Text(string(ch.ResourceVersion))
	c.inferred.Bool(ch.Inferred)
	optional(&c.gap, ch.Gap)
	c.stream.Text(string(ch.Stream.ID()))
	c.before.Bytes(ch.Before)
	c.after.Bytes(ch.After)
	c.last.Bool(last)
}

func (c *changeColumns) appendTo(values [][]byte) [][]byte { return appendParams(values, c.all()) }

// controlColumns are the control records of a batch as arrays, one for each column.
type controlColumns struct{ time, kind, stream, record pgdb.Array }

var controlTypes = []uint32{pgtype.TimestamptzArrayOID, pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.JSONArrayOID}

func (c *controlColumns) all() []*pgdb.Array {
	return []*pgdb.Array{&c.time, &c.kind, &c.stream, &c.record}
}

func (c *controlColumns) fill(controls []change.Control, uid string) error {
	reset(c.all(), controlTypes)
	for i := range controls {
		controls[i].ClusterUID = uid
		record, err := json.Marshal(&controls[i])
		if err != nil {
			return err
		}
		c.time.Time(time.UnixMilli(controls[i].TimeMs))
		c.kind.Text(controls[i].Type)
		optional(&c.stream, string(controls[i].Stream))
		c.record.Bytes(record)
	}
	return nil
}

func (c *controlColumns) appendTo(values [][]byte) [][]byte { return appendParams(values, c.all()) }

// letterColumns are what of a batch could not be read, as arrays, one for each column.
type letterColumns struct{ stream, reason, body pgdb.Array }

var letterColumnTypes = []uint32{pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.ByteaArrayOID}

func (c *letterColumns) all() []*pgdb.Array { return []*pgdb.Array{&c.stream, &c.reason, &c.body} }

func (c *letterColumns) fill(malformed []change.Malformed) {
	reset(c.all(), letterColumnTypes)
	for i := range malformed {
		m := &malformed[i]
		c.stream.Text(string(m.Stream))
		c.reason.Text(plainText(m.Reason)) // it may quote what could not be read
		c.body.Bytes(append([]byte{}, m.Bytes...))
	}
}

func (c *letterColumns) appendTo(values [][]byte) [][]byte { return appendParams(values, c.all()) }

// plainText leaves out what a column of type text can't hold.
func plainText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// elementOf: the type of an array's elements.
var elementOf = map[uint32]uint32{
	pgtype.TextArrayOID: pgtype.TextOID, pgtype.BoolArrayOID: pgtype.BoolOID,
	pgtype.JSONArrayOID: pgtype.JSONOID, pgtype.TimestamptzArrayOID: pgtype.TimestamptzOID,
	pgtype.ByteaArrayOID: pgtype.ByteaOID,
}

func reset(columns []*pgdb.Array, types []uint32) {
	for i, a := range columns {
		a.Reset(elementOf[types[i]])
	}
}

func appendParams(values [][]byte, columns []*pgdb.Array) [][]byte {
	for _, a := range columns {
		values = append(values, a.Param())
	}
	return values
}

// optional writes null for what does not apply.
func optional(a *pgdb.Array, text string) {
	if text == "" {
		a.Null()
		return
	}
	a.Text(text)
}
