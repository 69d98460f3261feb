package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Backup copies the server's data while it runs, for Restore. Connections are not disturbed.
// https://www.postgresql.org/docs/current/continuous-archiving.html#BACKUP-LOWLEVEL-BASE-BACKUP
func (p *Postgres) Backup(ctx context.Context) error {
	if err := p.backup(ctx); err != nil {
		return fmt.Errorf("back up Postgres: %w", err)
	}
	return nil
}

func (p *Postgres) backup(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.URL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `select pg_backup_start('kubecdc', true)`); err != nil {
		return err
	}
	data, copied := p.instance.path("data"), p.instance.path("backup")
	if err := copyLive(data, copied, func(name string) bool { return name != "pg_wal" && !strings.HasPrefix(name, "postmaster.") }); err != nil {
		return err
	}
	var label string
	if err := conn.QueryRow(ctx, `select labelfile from pg_backup_stop(false)`).Scan(&label); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(copied, "backup_label"), []byte(label), 0o600); err != nil {
		return err
	}
	return copyLive(filepath.Join(data, "pg_wal"), filepath.Join(copied, "pg_wal"), func(string) bool { return true })
}

// Restore kills the server and starts it with its data as of Backup.
func (p *Postgres) Restore(ctx context.Context) error {
	p.Kill()
	data := p.instance.path("data")
	err := errors.Join(os.RemoveAll(data), os.Rename(p.instance.path("backup"), data), os.Chmod(data, 0o700), p.user.give(data))
	if err != nil {
		return fmt.Errorf("restore Postgres: %w", err)
	}
	return p.Start(ctx)
}

// copyLive copies a folder while files in it come and go. It leaves out some names of its first level.
func copyLive(from, to string, want func(name string) bool) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(from, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case entry.IsDir() && want(name):
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		case entry.IsDir():
			return fs.SkipDir
		case !want(name):
			return nil
		}
		return copyFile(path, filepath.Join(to, name))
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
