// Package spool stores the batches of slots that a sink has not acknowledged. Each slot has a file, in the form of the embedded
// log. The file is removed once the sink has all batches. The package does not know when that is, nor who reads and writes the
// batches.
package spool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/internal/failpoint"
	"kubecdc/internal/fault"
	"kubecdc/internal/sqlitefile"
	"kubecdc/sinks"
	"kubecdc/sinks/sqlite"
)

// Folder has the files of an exporter.
type Folder struct {
	Path       string // it is made when a file is
	MaxBytes   int64  // limit for each file
	Cluster    string
	ClusterUID string
	ClusterIDs []string // as sqlite.Config has them
	CacheBytes int      // limit for the packed bodies that a slot caches
	Logger     *slog.Logger
}

// ErrUnusable says that a file can't be the rest of the slot's log.
var ErrUnusable = errors.New("the spool is not what follows the log")

func (f *Folder) file(slot int) string { return filepath.Join(f.Path, fmt.Sprintf("slot-%d.db", slot)) }

// Has reports whether the slot has a file. An empty file is one that an earlier release could not finish.
func (f *Folder) Has(slot int) bool {
	info, err := os.Stat(f.file(slot))
	return err == nil && info.Size() > 0
}

// Log returns the identity of the log that the files belong to, or an empty text if no file can be read.
func (f *Folder) Log(ctx context.Context) string {
	all, _ := filepath.Glob(filepath.Join(f.Path, "slot-*.db"))
	for _, path := range all {
		if file, err := sqlitefile.Share(ctx, path); err == nil {
			log, err := logOf(ctx, file)
			file.Close()
			if err == nil {
				return log
			}
		}
	}
	return ""
}

func logOf(ctx context.Context, file *sqlitefile.File) (log string, err error) {
	return log, file.DB().QueryRowContext(ctx, `select log from spool_of`).Scan(&log)
}

// Spool is the file of a slot.
type Spool struct {
	*sqlite.Memory
	Log         string // the identity of the log that it goes on from
	First, Last uint64 // batches, as of when it was opened
	Since       time.Time
	LeftOut     []change.StreamID // streams of which nothing is forwarded
	start       []change.Position // positions of the slot's streams before First

	folder *Folder
	slot   int
	file   *sqlitefile.File
	sink   *sqlite.Sink
}

// Begin makes the file of a slot, whose streams have these positions in the log. first is the number of the first batch. If the
// log may have that batch, it is next, without which the file can't be used. Otherwise next is nil. There is no file unless all
// of it is durable.
func (f *Folder) Begin(ctx context.Context, slot int, log string, start []change.Position, first uint64,
	next *change.Batch) error {
	path := f.file(slot)
	begun := path + ".begun"
	if err := removeFiles(begun); err != nil {
		return err
	}
	defer func() { _ = removeFiles(begun) }()
	err := f.fill(ctx, slot, begun, log, start, first, next)
	if err == nil {
		err = removeFiles(path) // an unfinished file may be there
	}
	if err == nil {
		err = os.WriteFile(f.room(slot), bytes.Repeat([]byte{1}, roomBytes), 0o600)
	}
	if err == nil {
		err = os.Rename(begun, path)
	}
	if err = cmp.Or(err, sqlitefile.SyncFolder(f.Path)); err == nil && next != nil {
		failpoint.Hit(failpoint.Spooled)
	}
	return err
}

func (f *Folder) fill(ctx context.Context, slot int, path, log string, start []change.Position, first uint64,
	next *change.Batch) error {
	s, err := f.openFile(ctx, slot, path)
	if err != nil {
		return err
	}
	defer s.Close()
	positions, err := json.Marshal(start)
	if err == nil {
		empty := int64(first)
		if next != nil {
			empty = 0
		}
		const make = `begin; create table spool_of (log text not null, first integer not null, positions text not null, left_out text not null) strict;
			create table spool_sums (seq integer primary key, sum integer not null) strict;
			insert into spool_of values (?, ?, ?, '[]'); commit`
		_, err = s.file.DB().ExecContext(ctx, make, log, empty, string(positions))
	}
	if err == nil && next != nil {
		err = s.write(ctx, next)
	}
	if err == nil {
		err = s.file.EmptyLog(ctx) // so that the file alone can be renamed
	}
	return s.file.Fail("make the spool", err)
}

// write writes the first batch.
func (s *Spool) write(ctx context.Context, b *change.Batch) error {
	opened, err := s.Writer(ctx, b.Epoch, b.Seq-1)
	if err != nil {
		return err
	}
	defer opened.Log.Close()
	failpoint.Hit(failpoint.Spooling)
	_, err = opened.Log.Write(ctx, b)
	return err
}

// Open opens the file of a slot. *sinks.OtherClusterError, and ErrUnusable if it is damaged. nil: it has no batch, and is
// removed.
func (f *Folder) Open(ctx context.Context, slot int) (*Spool, error) {
	s, err := f.open(ctx, slot)
	if err != nil {
		return nil, unusable(ctx, err)
	}
	if err = s.read(ctx); err == nil {
		err = s.sink.VerifyCluster(ctx, slot, sinks.Durable{})
	}
	switch {
	case err != nil:
		s.Close()
		return nil, unusable(ctx, err)
	case s.First == 0:
		return nil, s.Remove()
	}
	return s, nil
}

// unusable marks an error as ErrUnusable, unless another attempt may succeed.
func unusable(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrUnusable) || sqlitefile.IsOutside(err) ||
		fault.Is[*sinks.OtherClusterError](err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnusable, err)
}

// roomBytes are reserved on the disk, since a file can't be opened without some room.
const roomBytes = 256 << 10

func (f *Folder) room(slot int) string { return f.file(slot) + ".room" }

func (f *Folder) open(ctx context.Context, slot int) (*Spool, error) {
	s, err := f.openFile(ctx, slot, f.file(slot))
	if sqlitefile.IsFull(err) && os.Remove(f.room(slot)) == nil { // forwarding the spool makes more
		return f.openFile(ctx, slot, f.file(slot))
	}
	return s, err
}

func (f *Folder) openFile(ctx context.Context, slot int, path string) (*Spool, error) {
	s := &Spool{folder: f, slot: slot}
	var err error
	if s.file, err = sqlitefile.Own(ctx, path); err != nil {
		return nil, err
	}
	s.sink, err = sqlite.New(ctx, s.file, sqlite.Config{Cluster: f.Cluster, ClusterUID: f.ClusterUID, ClusterIDs: f.ClusterIDs,
		Logger:         f.Logger,
		BodyCacheBytes: f.CacheBytes, Spool: true})
	if err == nil {
		s.Memory, err = sqlite.NewMemory(ctx, s.file, f.Cluster)
	}
	if err != nil {
		s.file.Close()
		return nil, err
	}
	return s, nil
}

// read reads what the file is of, and where it begins: with no batch if its process has not finished making it.
func (s *Spool) read(ctx context.Context) error {
	db := s.file.DB()
	var sound string
	if err := db.QueryRowContext(ctx, `pragma quick_check(1)`).Scan(&sound); err != nil || sound != "ok" {
		return errors.Join(fmt.Errorf("%w: %s", sqlite.ErrDamaged, sound), err)
	}
	var first, written int64
	err := db.QueryRowContext(ctx, `select coalesce(min(seq), 0), coalesce(min(written), 0) from log_batches`).Scan(&first,
		&written)
	if err != nil {
		return s.file.Fail("find the first batch of the spool", err)
	}
	var from int64
	var positions, leftOut []byte
	err = db.QueryRowContext(ctx, `select log, first, positions, left_out from spool_of`).Scan(&s.Log, &from, &positions,
		&leftOut)
	switch {
	case first > 0:
		s.First, s.Since = uint64(first), time.UnixMilli(written)
		err = errors.Join(err, db.QueryRowContext(ctx, `select seq from log_slots`).Scan(&s.Last))
	case err != nil || from == 0:
		return nil
	default:
		s.First, s.Last, s.Since = uint64(from), uint64(from)-1, time.Now()
	}
	err = errors.Join(err, json.Unmarshal(positions, &s.start), json.Unmarshal(leftOut, &s.LeftOut))
	return s.file.Fail("find out what the spool goes on from", err)
}

// Writer opens the spool for the batches after a number. A spool that is not new has the batches up to that number.
func (s *Spool) Writer(ctx context.Context, epoch int64, after uint64) (*sinks.Opened, error) {
	opened, err := s.sink.Open(ctx, s.slot, epoch, sinks.Durable{Seq: after})
	if err == nil {
		opened.Log = &summed{opened.Log, s}
	}
	return opened, err
}

// LeaveOut makes Forward omit the streams of the spool that the sink refuses. It removes nothing. The streams remain omitted
// until the spool is removed: a log that lacks earlier changes of a stream must not get later ones.
func (s *Spool) LeaveOut(ctx context.Context, refused func(change.StreamID) bool) error {
	streams, err := s.Memory.Streams(ctx)
	streams = slices.DeleteFunc(streams, func(id change.StreamID) bool { return !refused(id) || slices.Contains(s.LeftOut, id) })
	if err != nil || len(streams) == 0 {
		return err
	}
	all := append(streams, s.LeftOut...)
	text, err := json.Marshal(all)
	if err == nil {
		_, err = s.file.DB().ExecContext(ctx, `update spool_of set left_out = ?`, string(text))
	}
	if err == nil {
		s.LeftOut = all
	}
	return s.file.Fail("leave streams out of the spool", err)
}

func (s *Spool) leavesOut(id change.StreamID) bool { return slices.Contains(s.LeftOut, id) }

// Forward visits the batches after one, as sqlite.Memory does, without the streams that are left out.
func (s *Spool) Forward(ctx context.Context, after uint64, visit func(*change.Batch) error) error {
	var visited error
	var current []change.StreamID // by the last record with a list, without those that are left out
	err := s.Memory.Forward(ctx, s.slot, after, func(b *change.Batch) error {
		if err := s.verify(ctx, b); err != nil {
			return err
		}
		b.Changes = slices.DeleteFunc(b.Changes, func(c change.Change) bool { return s.leavesOut(c.Stream.ID()) })
		b.Controls = slices.DeleteFunc(b.Controls, func(c change.Control) bool { return s.leavesOut(c.Stream) })
		if len(s.LeftOut) > 0 {
			b.Controls = s.onlyCurrent(b.Controls, &current)
		}
		b.Malformed = slices.DeleteFunc(b.Malformed, func(m change.Malformed) bool { return s.leavesOut(m.Stream) })
		b.Positions = slices.DeleteFunc(b.Positions, func(p change.Position) bool { return s.leavesOut(p.Stream) })
		visited = visit(b)
		return visited
	})
	return cmp.Or(visited, unusable(ctx, err))
}

// onlyCurrent names in each record of the type current the streams that are not left out. It drops a record without such streams,
// or with unknown ones.
func (s *Spool) onlyCurrent(controls []change.Control, current *[]change.StreamID) []change.Control {
	left := controls[:0]
	for _, c := range controls {
		if c.Type == change.ControlCurrent {
			if len(c.Streams) > 0 {
				*current = slices.DeleteFunc(slices.Clone(c.Streams), s.leavesOut)
			}
			if c.Streams = *current; len(c.Streams) == 0 {
				continue
			}
		}
		left = append(left, c)
	}
	return left
}

// PositionsAt returns the positions of the slot's streams after a batch of the spool, or after the batch before its first.
// Streams that are left out have none.
func (s *Spool) PositionsAt(ctx context.Context, seq uint64) ([]change.Position, error) {
	all, err := s.Memory.PositionsAt(ctx, s.slot, seq)
	for _, p := range s.start {
		if !slices.ContainsFunc(all, func(m change.Position) bool { return m.Stream == p.Stream }) {
			all = append(all, p)
		}
	}
	return slices.DeleteFunc(all, func(p change.Position) bool { return s.leavesOut(p.Stream) }), err
}

// Bytes is the size of the file.
func (s *Spool) Bytes() (n int64) {
	for _, end := range []string{"", "-wal"} {
		if info, err := os.Stat(s.file.Path() + end); err == nil {
			n += info.Size()
		}
	}
	return n
}

// MaxBytes is the limit of the file: the setting, or what the disk has room for.
func (s *Spool) MaxBytes() int64 {
	return min(s.folder.MaxBytes, s.Bytes()+sqlitefile.Free(s.folder.Path))
}

// IsFull reports whether no batch may be added.
func (s *Spool) IsFull() bool { return s.Bytes() >= s.folder.MaxBytes }

func (s *Spool) Close() {
	s.Memory.Close()
	_ = s.sink.Close()
	s.file.Close()
}

// Remove removes the file, once the sink has all its batches.
func (s *Spool) Remove() (err error) {
	s.Close()
	return removeFiles(s.file.Path())
}

// Remove removes the file of a slot, which nobody has open.
func (f *Folder) Remove(slot int) error {
	return cmp.Or(removeFiles(f.file(slot)), sqlitefile.SyncFolder(f.Path))
}

func removeFiles(path string) (err error) {
	for _, end := range []string{"-wal", "-shm", "", ".lock", ".room"} {
		if e := os.Remove(path + end); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// PutAside renames the file of a slot, which nobody has open, and returns its new name.
func (f *Folder) PutAside(slot int) (aside string, err error) {
	_ = os.Remove(f.room(slot))
	return sqlitefile.PutAside(f.file(slot), "refused")
}
