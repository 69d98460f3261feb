package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// own runs a transaction in which the slot has no other owner, and reports whether it has this one.
func (s *Store) own(ctx context.Context, slot int, epoch int64, do func(pgx.Tx) error) (owned bool, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		const own = `select from kubecdc.slots where cluster = $1 and slot = $2 and epoch = $3 for share`
		tag, err := tx.Exec(ctx, own, s.cluster.Load(), slot, epoch)
		if owned = err == nil && tag.RowsAffected() > 0; !owned {
			return err
		}
		return do(tx)
	})
	return owned, err
}

// stepRows is how many rows of the inventory are changed in one transaction. For as long as that lasts the slot's lease can't
// be renewed.
const stepRows = 10000

// inSteps runs a statement over the inventory of streams. Whoever is interrupted leaves it half done: it is to be begun again.
func (s *Store) inSteps(ctx context.Context, slot int, epoch int64, streams []int32, statement string) (owned bool, err error) {
	owned = true
	for _, stream := range streams {
		for after, more := "", true; more && owned && err == nil; {
			owned, err = s.own(ctx, slot, epoch, func(tx pgx.Tx) (err error) {
				after, more, err = step(ctx, tx, stream, after, statement)
				return err
			})
		}
	}
	return owned, err
}

// step runs the statement over the rows that follow a key.
func step(ctx context.Context, tx pgx.Tx, stream int32, after, statement string) (last string, more bool, err error) {
	// A table that was just filled has no statistics: only its primary key is to be used.
	const byKey = `select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)`
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
