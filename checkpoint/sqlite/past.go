package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
)

var _ checkpoint.Past = (*Store)(nil)

// OpenPast opens a copy of the file as it is now, since the process that has the file open keeps all others out. Nothing is left
// of the copy when this process ends, however it ends.
func OpenPast(ctx context.Context, path string) (checkpoint.Past, error) {
	folder, err := os.MkdirTemp("", "kubecdc-checkpoint-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for a copy of the checkpoint: %w", err)
	}
	defer os.RemoveAll(folder) // the system keeps the open files
	name := filepath.Join(folder, "copy.db")
	err = copyFile(ctx, path, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no checkpoint file %s: set KUBECDC_CHECKPOINT, KUBECDC_CLUSTER and KUBECDC_SINK as exporter "+
			"run has them", path)
	}
	if err != nil {
		return nil, fmt.Errorf("copy the checkpoint file %s: %w", path, err)
	}
	s, err := open(ctx, name, true)
	if err != nil {
		return nil, err
	}
	s.path = path
	return s, nil
}

// copyFile copies a database and its log, while another process may write both. SQLite moves pages from the log to the file, and
// begins the log anew when all are there. As long as the log was not begun anew, all that was written to the file is still in
// the log too: so a log that is copied after the file mends it. The log's header has another salt each time it is begun.
func copyFile(ctx context.Context, from, to string) error {
	for {
		before, err := header(from + "-wal")
		if err != nil {
			return err
		}
		if err := copyAll(from, to); err != nil {
			return err
		}
		if err := copyAll(from+"-wal", to+"-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		after, err := header(to + "-wal")
		if err != nil || ctx.Err() != nil || bytes.Equal(before, after) {
			return errors.Join(err, ctx.Err())
		}
	}
}

// header is the header of a log (https://www.sqlite.org/fileformat.html#the_write_ahead_log); empty if there is none.
func header(path string) ([]byte, error) {
	const size = 32
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, size))
}

func copyAll(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// Find chooses the cluster by name.
func (s *Store) Find(ctx context.Context, cluster string) error {
	unknown := &checkpoint.UnknownClusterError{Cluster: cluster, Where: "sqlite:" + s.path}
	rows, err := s.db.QueryContext(ctx, `select id, name from clusters order by name`)
	if err != nil {
		return s.fail("find the checkpoint of cluster "+cluster, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var name string
		if err := rows.Scan(&id, &name); err != nil {
			return s.fail("find the checkpoint of cluster "+cluster, err)
		}
		if unknown.Known = append(unknown.Known, name); name == cluster {
			s.cluster.Store(id)
		}
	}
	if err := rows.Err(); err != nil {
		return s.fail("find the checkpoint of cluster "+cluster, err)
	}
	if s.cluster.Load() == 0 {
		return unknown
	}
	return nil
}

// HistorySlots gives the slots that have checkpoints.
func (s *Store) HistorySlots(ctx context.Context) (slots []int, err error) {
	const look = `select slot from slots s where cluster = ?1
		and exists (select 1 from checkpoints c where c.cluster = s.cluster and c.slot = s.slot) order by slot`
	err = s.each(ctx, look, func(scan func(...any) error) error {
		var slot int
		err := scan(&slot)
		slots = append(slots, slot)
		return err
	}, s.cluster.Load())
	return slots, s.fail("read which slots have a history", err)
}

// PositionsAt gives the position of each stream of a slot at a time.
func (s *Store) PositionsAt(ctx context.Context, slot int, at time.Time) (all []change.Position, err error) {
	// SQLite takes the value from the row that has the maximum.
	const look = `select p.value, max(c.second) from checkpoints c, json_each(c.positions) p
		where c.cluster = ?1 and c.slot = ?2 and c.time <= ?3 group by p.key order by p.key`
	err = s.each(ctx, look, func(scan func(...any) error) error {
		var text []byte
		var second int64
		if err := scan(&text, &second); err != nil {
			return err
		}
		var p change.Position
		err := json.Unmarshal(text, &p)
		all = append(all, p)
		return err
	}, s.cluster.Load(), slot, at.UnixMicro())
	return all, s.fail(fmt.Sprintf("read the positions of slot %d at %s", slot, at.Format(time.RFC3339)), err)
}

// each calls visit for each row that a query finds.
func (s *Store) each(ctx context.Context, query string, visit func(scan func(...any) error) error, args ...any) error {
	if err := s.bound(); err != nil {
		return err
	}
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := visit(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
