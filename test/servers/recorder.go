package servers

import (
	"context"
	"fmt"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// recorder follows an etcd from a revision, so that its history is available when an API server has compacted it.
type recorder struct {
	cancel context.CancelFunc
	mu     sync.Mutex
	values bool
	events []EtcdEvent
	read   int64 // all up to this revision is in events
	moved  chan struct{}
	err    error
}

// newRecorder records the values too, if values is set.
func newRecorder(c *clientv3.Client, from int64, values bool) *recorder {
	ctx, cancel := context.WithCancel(context.Background())
	r := &recorder{cancel: cancel, read: from - 1, values: values, moved: make(chan struct{})}
	go func() {
		for resp := range c.Watch(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(from)) {
			r.add(resp)
		}
	}()
	return r
}

func (r *recorder) add(resp clientv3.WatchResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ev := range resp.Events {
		e := etcdEvent(ev)
		if !r.values {
			e.Value = nil
		}
		r.events, r.read = append(r.events, e), e.Revision
	}
	if err := resp.Err(); err != nil {
		r.err = err
	}
	close(r.moved)
	r.moved = make(chan struct{})
}

func (r *recorder) stop() {
	if r != nil {
		r.cancel()
	}
}

// history waits until all up to now is recorded.
func (r *recorder) history(ctx context.Context, c *clientv3.Client, prefix string, from int64) (found []EtcdEvent, err error) {
	now, err := revision(ctx, c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := Patient(ctx)
	defer cancel()
	for {
		r.mu.Lock()
		moved, done, err := r.moved, r.read >= now, r.err
		if done {
			for _, e := range r.events {
				if e.Revision >= from && e.Revision <= now && strings.HasPrefix(e.Key, prefix) {
					found = append(found, e)
				}
			}
		}
		r.mu.Unlock()
		switch {
		case done:
			return found, nil
		case err != nil:
			return nil, fmt.Errorf("record etcd's history: %w", err)
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, fmt.Errorf("record etcd's history up to revision %d: %w", now, ctx.Err())
		}
	}
}
