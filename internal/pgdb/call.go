package pgdb

import (
	"context"
	"errors"
)

var (
	binaryFormat = []int16{1} // of all parameters
	errNoAnswer  = errors.New("the function gave no answer")
)

// Call runs a statement that gives one row of one text, and soon, its parameters in binary format. It is one message there
// and one back: the statement starts when all of it has arrived.
func (db *DB) Call(ctx context.Context, sql string, params [][]byte, types []uint32) (answer string, err error) {
	size := 0
	for _, p := range params {
		size += len(p)
	}
	err = db.Soon(ctx, size, func(ctx context.Context) error {
		answer, err = db.call(ctx, sql, params, types)
		return err
	})
	return answer, err
}

func (db *DB) call(ctx context.Context, sql string, params [][]byte, types []uint32) (answer string, err error) {
	conn, err := db.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	result := conn.Conn().PgConn().ExecParams(ctx, sql, params, types, binaryFormat, nil).Read()
	if result.Err != nil {
		return "", result.Err
	}
	if len(result.Rows) != 1 {
		return "", errNoAnswer
	}
	return string(result.Rows[0][0]), nil
}
