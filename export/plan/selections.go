package plan

import (
	"sync"

	"kubecdc/source/discovery"
)

// Selections has the newest selection, for the sessions of all slots.
type Selections struct {
	mu      sync.Mutex
	newest  *discovery.Selection // nil: there is none yet
	changed chan struct{}        // is closed when there is a newer one
}

// NewSelections returns them without a selection.
func NewSelections() *Selections { return &Selections{changed: make(chan struct{})} }

// Publish makes a selection the newest one.
func (s *Selections) Publish(newest discovery.Selection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.newest, s.changed = &newest, make(chan struct{})
}

// Latest returns the newest selection, or nil, and a channel that is closed when there is a newer one.
func (s *Selections) Latest() (newest *discovery.Selection, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest, s.changed
}
