package pgdb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

// Param is a parameter of a function in the database.
type Param struct {
	Name  string // as in the function. With a dot it is a setting, while the function runs
	Type  uint32 // OID
	Value []byte // in Postgres' binary format
}

func Int4(name string, v int32) Param {
	return Param{name, pgtype.Int4OID, binary.BigEndian.AppendUint32(nil, uint32(v))}
}

func Int8(name string, v int64) Param {
	return Param{name, pgtype.Int8OID, binary.BigEndian.AppendUint64(nil, uint64(v))}
}

func Bool(name string, v bool) Param { return Param{name, pgtype.BoolOID, []byte{encodedBool(v)}} }

func Text(name, v string) Param { return Param{name, pgtype.TextOID, []byte(Escape(v))} }

func JSON(name string, text []byte) Param { return Param{name, pgtype.JSONOID, text} }

// JSONB is a jsonb: its text after a version number.
func JSONB(name string, text []byte) Param {
	return Param{name, pgtype.JSONBOID, append([]byte{1}, text...)}
}

var (
	binaryFormat = []int16{1} // the format of all parameters
	errNoAnswer  = errors.New("the function gave no answer")
)

// Call calls a function that returns a text within the time of WithDeadline. It is one message there and one back: the function
// starts when all of its parameters have arrived.
func (db *DB) Call(ctx context.Context, function string, params ...Param) (answer string, err error) {
	size := 0
	for _, p := range params {
		size += len(p.Value)
	}
	err = db.WithDeadline(ctx, size, func(ctx context.Context) error {
		answer, err = db.call(ctx, function, params, size)
		return err
	})
	return answer, err
}

func (db *DB) call(ctx context.Context, function string, params []Param, size int) (answer string, err error) {
	conn, err := db.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	values, types := make([][]byte, len(params)), make([]uint32, len(params))
	for i, p := range params {
		values[i], types[i] = p.Value, p.Type
	}
	conn.Conn().PgConn().Frontend().Send(room(size + 4<<10))
	result := conn.Conn().PgConn().ExecParams(ctx, callSQL(function, params), values, types, binaryFormat, nil).Read()
	if result.Err != nil {
		return "", result.Err
	}
	if len(result.Rows) != 1 {
		return "", errNoAnswer
	}
	return string(result.Rows[0][0]), nil
}

// room is an empty message before a message of so many bytes. Without it pgx would copy the message again and again while its
// buffer grows.
type room int

func (room) Frontend()           {} // implements pgproto3.FrontendMessage
func (room) Decode([]byte) error { return nil }

// Encode of pgproto3.FrontendMessage.
func (r room) Encode(dst []byte) ([]byte, error) { return slices.Grow(dst, int(r)), nil }

// callSQL names each parameter: select function(one => $1, two => $2) from set_config('a.setting', $3, true).
func callSQL(function string, params []Param) string {
	sql, settings := append([]byte("select "), function...), ""
	separator := "("
	for i, p := range params {
		if strings.Contains(p.Name, ".") {
			settings = fmt.Sprintf(" from set_config('%s', $%d, true)", p.Name, i+1)
			continue
		}
		sql = append(append(append(sql, separator...), p.Name...), " => $"...)
		sql = strconv.AppendInt(sql, int64(i+1), 10)
		separator = ", "
	}
	return string(append(sql, ')')) + settings
}
