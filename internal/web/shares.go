package web

import (
	"context"
	"slices"
	"sync"
)

// Shares divides a number of units among users, such as bytes. A user gets at most as much as is still free. So one user gets at
// most half, and each of two users at most a third. So there is room for one more.
type Shares struct {
	mu      sync.Mutex
	free    int64
	held    map[string]int64
	waiting []*waiter // in the order in which they came
}

type waiter struct {
	user    string
	n       int64
	granted chan struct{}
}

// NewShares returns shares of a number of units.
func NewShares(all int64) *Shares { return &Shares{free: all, held: map[string]int64{}} }

// Try takes units for a user, if they are within its share.
func (s *Shares) Try(user string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(user, n)
}

func (s *Shares) take(user string, n int64) bool {
	if s.held[user]+n > s.free-n {
		return false
	}
	s.held[user] += n
	s.free -= n
	return true
}

// Acquire takes units for a user, when they are within its share. It returns the context's error if that ends before. Callers
// that wait may hold no units, so that nobody waits forever.
func (s *Shares) Acquire(ctx context.Context, user string, n int64) error {
	s.mu.Lock()
	if s.take(user, n) {
		s.mu.Unlock()
		return nil
	}
	w := &waiter{user, n, make(chan struct{})}
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, w); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else { // it was granted meanwhile
		s.release(user, n)
	}
	return ctx.Err()
}

// Held returns how many units a user has.
func (s *Shares) Held(user string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[user]
}

// Release gives units back.
func (s *Shares) Release(user string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(user, n)
}

func (s *Shares) release(user string, n int64) {
	s.free += n
	if s.held[user] -= n; s.held[user] == 0 {
		delete(s.held, user)
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(w *waiter) bool {
		granted := s.take(w.user, w.n)
		if granted {
			close(w.granted)
		}
		return granted
	})
}
