package export

import (
	"sync"

	"kubecdc/source/discovery"
)

// selections has the newest selection, for the sessions of all slots.
type selections struct {
	mu      sync.Mutex
	newest  *discovery.Selection // nil: there is none yet
	changed chan struct{}        // is closed when there is a newer one
}

func newSelections() *selections { return &selections{changed: make(chan struct{})} }

func (s *selections) publish(newest discovery.Selection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.newest, s.changed = &newest, make(chan struct{})
}

func (s *selections) latest() (newest *discovery.Selection, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest, s.changed
}
