package sqlite

import (
	"context"
	"database/sql"
)

// stepRows is how many rows of the inventory one transaction changes. Leases can't be renewed meanwhile: there is one connection.
const stepRows = 5000

// inSteps runs a statement over the inventory of streams, in many transactions. If it is interrupted the next owner begins again.
func (s *Store) inSteps(ctx context.Context, slot int, epoch int64, streams []int64, statement string) (err error) {
	for _, stream := range streams {
		for after, more := "", true; more && err == nil; {
			err = s.owned(ctx, slot, epoch, func(t *transaction) (err error) {
				after, more, err = t.step(stream, after, statement)
				return err
			})
		}
	}
	return err
}

// step runs the statement over the rows that follow a key.
func (t *transaction) step(stream int64, after, statement string) (last string, more bool, err error) {
	const look = `select max(key) from (select key from inventory where stream = ? and key > ? order by key limit ?)`
	var key sql.NullString
	if err := t.QueryRowContext(t.ctx, look, stream, after, stepRows).Scan(&key); err != nil || !key.Valid {
		return "", false, err
	}
	_, err = t.exec(statement+` where stream = ? and key > ? and key <= ?`, stream, after, key.String)
	return key.String, true, err
}
