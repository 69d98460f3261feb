package main

import (
	"context"
	"errors"
	"fmt"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// await waits until the topics show something. It fails when nothing moves for long. It also fails when the exporter, which must bring
// it about, has ended. The error then has the exporter's last words.
func (t *tour) await(ctx context.Context, what string, shown func(*topicLog) bool) error {
	defer t.screen.wait(what)()
	return t.awaitQuietly(ctx, what, shown)
}

// awaitQuietly leaves the waiting line alone.
func (t *tour) awaitQuietly(ctx context.Context, what string, shown func(*topicLog) bool) error {
	ctx, cancel := servers.Patient(ctx)
	defer cancel()
	for {
		var ok bool
		changed, err := t.consumer.read(func(l *topicLog) { ok = shown(l) })
		if ok {
			return nil
		}
		if err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return t.fail("wait for "+what, context.Cause(ctx))
		case <-t.exporter.Done():
			return t.fail("wait for "+what, errExited)
		}
	}
}

// awaitReady waits until /readyz is 200.
func (t *tour) awaitReady(ctx context.Context) error {
	defer t.screen.wait("the exporter to be ready")()
	err := servers.Until(ctx, "the exporter to be ready", func() (bool, error) {
		if !t.exporter.Running() {
			return false, errExited
		}
		return t.exporter.Ready(ctx) == nil, nil
	})
	if err != nil {
		return t.fail("start", err)
	}
	return nil
}

// fail adds the end of the exporter's log to an error, unless it is the reader who has enough.
func (t *tour) fail(what string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s: %w\nthe exporter's last words:\n%s", what, err, t.exporter.logTail())
}

// awaitAll waits until the topics are complete up to what etcd holds now, and are read to their ends.
func (t *tour) awaitAll(ctx context.Context) error {
	last := map[change.StreamID]uint64{}
	for _, k := range kinds {
		history, err := t.stack.kube.EtcdHistory(ctx, k.Prefix, 1)
		if err != nil {
			return err
		}
		for _, e := range history {
			last[k.Stream()] = uint64(e.Revision)
		}
	}
	err := t.await(ctx, "the rest", func(l *topicLog) bool {
		for stream, revision := range last {
			if l.positions[stream] < revision {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	ends, err := t.consumer.ends(ctx)
	if err != nil {
		return err
	}
	return t.await(ctx, "the ends of the topics", func(l *topicLog) bool {
		for p, end := range ends {
			if l.next[p] < end {
				return false
			}
		}
		return true
	})
}
