package observe

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/live"
	"kubecdc/internal/dependency"
	"kubecdc/status"
)

// Status makes the status that the HTTP server shows. It covers this process, and all replicas while the checkpoint is open.
type Status struct {
	Exporter   *live.Exporter
	Version    string
	StaleAfter time.Duration
	SinkPage   string // the page about the sink's failures

	open   atomic.Pointer[Place] // nil: the checkpoint is not open
	mu     sync.Mutex
	place  Place
	stored *status.Stored
	read   time.Time // when stored was read
	tried  time.Time // when a read last ended, and its error
	failed error
}

// Place is the exporter's log and checkpoint, once the checkpoint is open.
type Place struct {
	Cluster   string
	Store     checkpoint.Overview
	Addresses map[string]string                     // servers' addresses, by dependency
	LogSize   func(context.Context) *change.LogSize // returns nil if the context ends before it is known
}

const (
	storedFor   = 2 * time.Second
	readTimeout = time.Second
)

// Open sets the place of the checkpoint, until the returned function is called.
func (s *Status) Open(place Place) (closed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.place = place
	s.open.Store(&place)
	return func() {
		s.open.Store(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.place.Store = nil
	}
}

// Snapshot returns the state of this process. If the checkpoint's file is no longer in its place, that is a problem.
func (s *Status) Snapshot() *live.Snapshot {
	if place := s.open.Load(); place != nil {
		if err := checkpoint.InPlace(place.Store); err != nil { // nil says nothing of other problems
			s.Exporter.Fails(dependency.Checkpoint, err)
		}
	}
	return s.Exporter.Snapshot()
}

// Now returns the present status.
func (s *Status) Now() *status.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	err := s.readStored(now)
	options := status.Options{Cluster: s.place.Cluster, Now: now, StaleAfter: s.StaleAfter,
		Version: s.Version, Addresses: s.place.Addresses, SinkPage: s.SinkPage}
	made := status.Make(options, s.stored, s.Snapshot())
	switch {
	case s.stored == nil:
		made.Notes = append(made.Notes, "The checkpoint is not open yet, or can't be read: only what this process knows "+
			"is shown.")
	case err != nil:
		made.Notes = append(made.Notes, "The checkpoint could not be read: what belongs to other replicas is shown as of "+
			s.read.UTC().Format(time.RFC3339)+".")
	}
	return made
}

// readStored reads the checkpoint with a context of its own, since other pages wait for it when a browser goes away. After a
// failure it does not try again at once. Otherwise each page would wait for the pages before it if the checkpoint hangs.
func (s *Status) readStored(now time.Time) error {
	if s.place.Store == nil {
		return nil
	}
	if now.Sub(s.tried) < storedFor {
		return s.failed
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	stored, err := status.Read(ctx, s.place.Store)
	if err == nil {
		stored.Log = s.place.LogSize(ctx)
		s.stored, s.read = stored, now
	}
	s.tried, s.failed = time.Now(), err
	return err
}
