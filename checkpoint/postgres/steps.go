package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// stepRows is how many rows of the inventory one transaction changes. The slot's lease can't be renewed meanwhile.
const stepRows = 10000

// inSteps runs a statement over the inventory of streams, in many transactions. If it is interrupted the next owner begins again.
func (s *Store) inSteps(ctx context.Context, slot int, epoch int64, streams []int32, statement string) (err error) {
	for _, stream := range streams {
		for after, more := "", true; more && err == nil; {
			err = s.owned(ctx, slot, epoch, func(tx pgx.Tx) (err error) {
				after, more, err = step(ctx, tx, stream, after, statement)
				return err
			})
		}
	}
	return err
}

// step runs the statement over the rows that follow a key.
func step(ctx context.Context, tx pgx.Tx, stream int32, after, statement string) (last string, more bool, err error) {
	// A table that was just filled has no statistics: only its primary key is to be used.
	const byKey = `select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
		set_config('enable_sort', 'off', true)`
	if _, err := tx.Exec(ctx, byKey); err != nil {
		return "", false, err
	}
	const look = `select key from kubecdc.inventory where stream = $1 and key > $2 order by key offset $3 limit 1`
	err = tx.QueryRow(ctx, look, stream, after, stepRows-1).Scan(&last)
	if errors.Is(err, pgx.ErrNoRows) {
		_, err = tx.Exec(ctx, statement+` where stream = $1 and key > $2`, stream, after)
		return "", false, err
	}
	if err == nil {
		_, err = tx.Exec(ctx, statement+` where stream = $1 and key > $2 and key <= $3`, stream, after, last)
	}
	return last, true, err
}
