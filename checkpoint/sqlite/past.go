package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

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
