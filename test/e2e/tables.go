package e2e

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/internal/pgdb"
)

// ReadTables reads the Postgres sink's tables as if they were topics. The slot replaces the partition, and a tombstone is added
// after each delete, which tables don't need.
func ReadTables(t testing.TB, url, prefix string) *Log {
	t.Helper()
	return readTables(t, url, func(l *Log, ctx context.Context, tx pgx.Tx) error {
		if err := readChanges(l, ctx, tx, prefix); err != nil {
			return err
		}
		return readControls(l, ctx, tx)
	})
}

func readTables(t testing.TB, url string, read func(*Log, context.Context, pgx.Tx) error) *Log {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	must(t, err)
	defer conn.Close(ctx)
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}) // all at one moment
	must(t, err)
	defer tx.Rollback(ctx)
	log := &Log{}
	if exists := false; tx.QueryRow(ctx, `select to_regclass('kubecdc_log.dead_letters') is not null`).Scan(&exists) != nil || !exists {
		return log // the exporter has not yet created the tables
	}
	must(t, read(log, ctx, tx))
	return log
}

func readChanges(l *Log, ctx context.Context, tx pgx.Tx, prefix string) error {
	rows, err := tx.Query(ctx, `select slot, op, api_group, resource, namespace, name, uid, resource_version, inferred, before::text, after::text
		from kubecdc_log.changes order by slot, epoch, batch, n`)
	if err != nil {
		return err
	}
	var r Record
	var group, resource, namespace, name string
	var before, after *string
	into := []any{&r.Partition, &r.Op, &group, &resource, &namespace, &name, &r.UID, &r.Version, &r.Inferred, &before, &after}
	_, err = pgx.ForEachRow(rows, into, func() error {
		r.Topic = change.Topic(prefix, change.Resource{Group: group, Plural: resource})
		r.Key, r.Before, r.After = change.ObjectKey(namespace, pgdb.Unescape(name)), image(before), image(after)
		l.Records = append(l.Records, withTombstone(r)...)
		return nil
	})
	return err
}

func image(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

// withTombstone adds a tombstone after a delete, for logs that have none.
func withTombstone(r Record) []Record {
	if r.Op != "d" {
		return []Record{r}
	}
	return []Record{r, {Topic: r.Topic, Partition: r.Partition, Key: r.Key}}
}

func readControls(l *Log, ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `select record from kubecdc_log.control order by slot, epoch, batch, n`)
	if err != nil {
		return err
	}
	if l.Controls, err = pgx.CollectRows(rows, pgx.RowTo[change.Control]); err != nil {
		return err
	}
	return eachBatch(ctx, tx, func(positions []change.Position) {
		l.Controls = append(l.Controls, change.BatchControl("", change.BatchEnd{Positions: positions}))
	})
}

func eachBatch(ctx context.Context, from interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, do func([]change.Position)) error {
	rows, err := from.Query(ctx, `select positions from kubecdc_log.batches order by slot, epoch, seq`)
	if err != nil {
		return err
	}
	var positions []change.Position
	_, err = pgx.ForEachRow(rows, []any{&positions}, func() error {
		do(positions)
		positions = nil
		return nil
	})
	return err
}

// batchPositions returns the positions of all batches in the tables, or nil while there are no tables.
func batchPositions(t testing.TB, url string) (all []change.Position) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer conn.Close(t.Context())
	_ = eachBatch(t.Context(), conn, func(positions []change.Position) { all = append(all, positions...) })
	return all
}
