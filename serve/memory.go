package serve

import (
	"context"
	"runtime"

	"kubecdc/internal/web"
	"kubecdc/sinks"
)

// The objects of answers are in memory until their clients have read them. Users share that memory.
const (
	mostMemory = 64 << 20 // bytes of all objects in memory
	ofList     = 4 << 20  // bytes that a list has from its beginning. Half of them are for the page that is being read
	ofObject   = 256 << 10
)

// mostPages is how many pages are read or written as text at once. One user may have half of them.
var mostPages = int64(2 * max(2, runtime.GOMAXPROCS(0)))

// memory is one answer's part of the memory that all answers share.
type memory struct {
	shares *web.Shares
	user   string
	bytes  int64
}

// take waits for memory. A caller that has some may not wait for more, so that nobody waits forever.
func (all *views) take(ctx context.Context, bytes int64) (*memory, error) {
	m := &memory{all.memory, web.SenderOf(ctx), min(bytes, mostMemory/4)}
	if err := m.shares.Acquire(ctx, m.user, m.bytes); err != nil {
		return nil, err
	}
	return m, nil
}

// grow takes more, if there is room for the user.
func (m *memory) grow(bytes int64) bool {
	if !m.shares.Try(m.user, bytes) {
		return false
	}
	m.bytes += bytes
	return true
}

// shrink gives back what is above a number of bytes.
func (m *memory) shrink(bytes int64) {
	if m != nil && m.bytes > bytes {
		m.shares.Release(m.user, m.bytes-bytes)
		m.bytes = bytes
	}
}

// arrived is a change, with memory for it and its event.
type arrived struct {
	sinks.Logged
	memory *memory // nil: it is small
}

// arrive waits for memory, and copies a change.
func (all *views) arrive(ctx context.Context, l *sinks.Logged) (a arrived, err error) {
	if size := 3 * int64(len(l.Before)+len(l.After)); size > ofObject {
		a.memory, err = all.take(ctx, size)
	}
	if err == nil {
		a.Logged = l.Clone()
	}
	return a, err
}
