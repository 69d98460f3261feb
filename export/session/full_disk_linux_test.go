package session

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"kubecdc/export/spooling"
	"kubecdc/internal/fault"
	"kubecdc/internal/sqlitefile"
	"kubecdc/test/servers"
)

// The disk is full when an outage begins. What could not be begun is no spool, so that the sink is asked when it is back.
func TestAFullDiskWhenASpoolBegins(t *testing.T) {
	t.Parallel()
	for _, room := range []int{0, 16, 64, 128, 256, 400} { // KB: each step of the begin fails once
		o := newOutage(t)
		folder := o.parts.Spools.Path
		if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=2m"); err != nil {
			t.Skipf("this user can't mount a small disk: %v", err)
		}
		t.Cleanup(func() { mustDo(t, unix.Unmount(folder, unix.MNT_DETACH)) })
		o.play("begin, write 1")
		filler, err := os.Create(filepath.Join(folder, "filler"))
		mustDo(t, err)
		n, err := io.Copy(filler, rand.Reader)
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("the disk is not full: %v", err)
		}
		mustDo(t, errors.Join(filler.Truncate(n-int64(room)<<10), filler.Close()))
		o.play("cut, fail 2")
		if err = o.begin(t.Context()); err == nil {
			o.end(errOther)
			t.Errorf("a spool has begun in %d KB", room)
		}
		if left, _ := filepath.Glob(filepath.Join(folder, "slot-*")); len(left) > 0 || !sqlitefile.IsFull(err) {
			t.Errorf("with %d KB it left %v: %v", room, left, err)
		}
		o.play("restore, await, write 3, end")
		if got := strings.Join(o.names(), " "); got != "p1 p3" && got != "p1 p2 p3" {
			t.Errorf("with %d KB the log has %s", room, got)
		}
	}
}

// A disk with less room than the spool may have is its limit, in the status and for the alert.
func TestTheDiskIsTheLimitOfASpool(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	folder := o.parts.Spools.Path
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("this user can't mount a small disk: %v", err)
	}
	t.Cleanup(func() { mustDo(t, unix.Unmount(folder, unix.MNT_DETACH)) })
	o.play(intoSpool)
	s := o.m.Memory.(*spooling.Memory)
	if limit := s.Spooled().MaxBytes; limit > 4<<20 {
		t.Errorf("the limit is %d bytes on a disk of 4 MB", limit)
	}
	mustDo(t, os.WriteFile(filepath.Join(folder, "filler"), make([]byte, sqlitefile.Free(folder)), 0o600))
	if f := s.Spooled(); f.MaxBytes != f.Bytes {
		t.Errorf("with a full disk %d of %d bytes are in use", f.Bytes, f.MaxBytes)
	}
	o.end(errOther)
}

// An earlier release left an empty file where a spool could not begin.
func TestAnEmptyFileIsNoSpool(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	mustDo(t, os.WriteFile(filepath.Join(o.parts.Spools.Path, "slot-0.db"), nil, 0o600))
	if o.parts.Spools.Has(0) {
		t.Error("it counts")
	}
	o.play("await, write 1, cut, fail 2, begin, write 3, end, restore, await, end, log p1 p2 p3")
}

// Another process has the spool open for a moment. The sink gets the spool's batches before later ones.
func TestASpoolThatIsInUseIsWaitedFor(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	o.play("begin, write 1, cut, fail 2, begin, write 3, end, restore")
	other, err := o.parts.Spools.Open(t.Context(), 0)
	mustDo(t, err)
	if err := o.begin(t.Context()); !fault.Is[*fault.InUseError](err) {
		t.Errorf("it is passed by: %v", err)
		o.end(errOther)
	}
	other.Close()
	servers.Await(t, "a session with the sink", func() (bool, error) {
		if err := o.begin(context.WithoutCancel(t.Context())); err != nil {
			return false, err
		}
		o.end(errOther)
		return !o.parts.Spools.Has(0), nil
	})
	o.play("log p1 p2 p3")
}
