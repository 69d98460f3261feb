package postgres_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"kubecdc/checkpoint"
	"kubecdc/test/servers"
)

// An owner that stops, or loses its network, while it sends a commit must not block the next owner.
func TestACommitThatIsStuckOnItsWayHoldsNoLock(t *testing.T) {
	proxy, err := servers.NewProxy(servers.SharedPostgres(t).Address)
	must(t, err)
	defer proxy.Close()
	database := servers.Database(t)
	old := openBound(t, withChange(t, database, func(u *url.URL) { u.Host = proxy.Address }))
	stuck := checkpoint.Commit{Seq: 1, Streams: []checkpoint.StreamCommit{{Stream: "pods"}}}
	for i := range 100 { // 2 MB
		body := make([]byte, 20000)
		rand.Read(body)
		stuck.Streams[0].Upserts = append(stuck.Streams[0].Upserts, checkpoint.Object{Key: fmt.Sprint(i), UID: "u", ResourceVersion: "1", Body: checkpoint.Body{Base: body}})
	}
	state, err := old.Acquire(t.Context(), 0, "a", 0)
	must(t, err)
	stuck.Epoch = state.Epoch
	proxy.Slow(10_000) // sending takes minutes
	done := make(chan error, 1)
	go func() { done <- old.Commit(t.Context(), stuck) }()

	next := openBound(t, database)
	ctx, cancel := servers.Patient(t.Context())
	defer cancel()
	for seq := uint64(1); seq <= 200; seq++ { // while the other commit slowly arrives
		state, err := next.Acquire(ctx, 0, "b", time.Minute)
		must(t, err)
		put := checkpoint.StreamCommit{Stream: "pods", Upserts: stuck.Streams[0].Upserts[:1]}
		must(t, next.Commit(ctx, checkpoint.Commit{Epoch: state.Epoch, Seq: seq, Streams: []checkpoint.StreamCommit{put}}))
	}
	select {
	case err := <-done:
		t.Fatalf("the commit was not stuck: %v", err)
	default:
	}
	must(t, proxy.Restore())
	if err := <-done; !errors.Is(err, checkpoint.ErrFenced) {
		t.Fatalf("error is %v", err)
	}
}
