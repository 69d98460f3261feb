package observe

import (
	"context"
	"sync"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/export/live"
	"kubecdc/status"
)

// Status makes the status that the HTTP server shows: of this process, and of all replicas while the checkpoint is open.
type Status struct {
	Exporter   *live.Exporter
	Version    string
	StaleAfter time.Duration

	mu     sync.Mutex
	at     Place
	stored *status.Stored
	read   time.Time // when stored was read
	tried  time.Time // when a read ended last, and its error
	failed error
}

// Place is what the exporter works on, once the checkpoint is open.
type Place struct {
	Cluster   string
	Store     checkpoint.Overview
	Addresses map[string]string // of servers, by dependency
}

const (
	storedFor   = 2 * time.Second
	readTimeout = time.Second
)

// Open says where the checkpoint is, until the function that it returns is called.
func (s *Status) Open(at Place) (closed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = at
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.at.Store = nil
	}
}

// Now makes the status.
func (s *Status) Now() *status.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	err := s.readStored(now)
	options := status.Options{Cluster: s.at.Cluster, Now: now, StaleAfter: s.StaleAfter,
		Version: s.Version, Addresses: s.at.Addresses}
	made := status.Make(options, s.stored, s.Exporter.Snapshot())
	switch {
	case s.stored == nil:
		made.Notes = append(made.Notes, "The checkpoint is not open yet, or can't be read: only what this process knows is shown.")
	case err != nil:
		made.Notes = append(made.Notes, "The checkpoint could not be read: what belongs to other replicas is shown as of "+
			s.read.UTC().Format(time.RFC3339)+".")
	}
	return made
}

// readStored reads the checkpoint, on its own time: a browser that goes away must not break off what other pages wait for. If it
// fails it is not tried again at once: with a checkpoint that hangs each page would wait for those before it.
func (s *Status) readStored(now time.Time) error {
	if s.at.Store == nil {
		return nil
	}
	if now.Sub(s.tried) < storedFor {
		return s.failed
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	stored, err := status.Read(ctx, s.at.Store)
	if err == nil {
		s.stored, s.read = stored, now
	}
	s.tried, s.failed = time.Now(), err
	return err
}
