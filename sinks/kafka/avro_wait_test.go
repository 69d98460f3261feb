package kafka_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/test/servers"
)

// The first batch of a topic waits for a registry that is down or refuses the login. It reports that, and goes on in the same
// session. It gives up when the session ends.
func TestABatchWaitsForTheRegistry(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusServiceUnavailable: "pods: read the latest schema of the subject ",
		http.StatusUnauthorized:       "check KUBECDC_SCHEMA_REGISTRY_USERNAME and its password",
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			r, h := newFakeRegistry(t), &heard{stuck: make(chan error, 100)}
			cfg := inAvro(newConfig(t, fakeCluster(t).ListenAddrs()), r.URL, &described{properties: replicas})
			cfg.Observer = h
			log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
			r.answer(status)
			session, end := context.WithCancelCause(servers.Context(t))
			write := func(seq int) chan error {
				done := make(chan error, 1)
				go func() {
					_, err := log.Write(sinks.WithSession(servers.Context(t), session), &change.Batch{Epoch: 1, Seq: uint64(seq),
						Changes: []change.Change{avroPod(seq, `{"replicas":3}`)}})
					done <- err
				}()
				select {
				case err := <-h.stuck:
					if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), r.URL) {
						t.Errorf("reported is %v, want %q", err, want)
					}
				case err := <-done:
					t.Fatalf("it does not wait: %v", err)
				}
				return done
			}
			done := write(1)
			r.answer(0)
			mustDo(t, <-done)
			if err := <-h.stuck; err != nil {
				t.Errorf("at the end it reports %v", err)
			}
			mustDo(t, log.Close())

			log, _ = openLog(t, newSink(t, cfg), 0, 2, sinks.Durable{Seq: 1})
			r.answer(status)
			done = write(2)
			lost := errors.New("the lease is lost")
			end(lost)
			if err := <-done; !errors.Is(err, lost) {
				t.Errorf("after the session's end the batch ends with %v", err)
			}
		})
	}
}

// A registry that accepts connections and never answers does not delay the end of a process.
func TestASilentRegistryIsLeftAtTheEnd(t *testing.T) {
	r := newFakeRegistry(t)
	cfg := inAvro(newConfig(t, fakeCluster(t).ListenAddrs()), r.URL, &described{properties: replicas})
	log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
	r.mu.Lock() // no answer
	defer r.mu.Unlock()
	session, end := context.WithCancel(servers.Context(t))
	time.AfterFunc(100*time.Millisecond, end)
	_, err := log.Write(sinks.WithSession(servers.Context(t), session), &change.Batch{Epoch: 1, Seq: 1, Changes: []change.Change{avroPod(1, `{}`)}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}
