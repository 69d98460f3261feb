package kafka_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kubecdc/sinks"
	"kubecdc/test/servers"
)

// heard collects what the sink reports.
type heard struct {
	sinks.NoObserver
	stuck chan error
}

func (h *heard) SinkStuck(err error) { h.stuck <- err }

// A request that is retried for a long time is reported with a hint, and so is its end.
func TestRetriedErrorsAreReported(t *testing.T) {
	for _, tc := range []struct {
		err  *kerr.Error
		key  kmsg.Key
		want string
	}{
		{kerr.NotEnoughReplicas, kmsg.Produce, "start the brokers that hold the replicas, or lower min.insync.replicas"},
		{kerr.CoordinatorNotAvailable, kmsg.EndTxn, "transaction.state.log.replication.factor"},
	} {
		t.Run(tc.err.Message, func(t *testing.T) {
			t.Parallel()
			c := fakeCluster(t)
			cfg, h := newConfig(t, c.ListenAddrs()), &heard{stuck: make(chan error, 10)}
			cfg.Observer = h
			log, _ := openLog(t, newSink(t, cfg), 0, 1, sinks.Durable{})
			mustWrite(t, log, lives(1, 3, 2))
			faults := c.Fault(fault(tc.key, tc.err, -1))
			reported := make(chan error, 1)
			go func() { // the fault lasts until it is reported
				late, cancel := servers.Patient(t.Context())
				defer cancel()
				select {
				case err := <-h.stuck:
					reported <- err
				case <-late.Done():
					reported <- nil
				}
				faults.Remove()
			}()
			second := lives(2, 3, 2)
			mustWrite(t, log, second)
			if err := <-reported; err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("it reported %v, want %q", err, tc.want)
			}
			if len(h.stuck) != 1 {
				t.Fatalf("it reported %d times more, want once, that nothing is stuck", len(h.stuck))
			}
			if err := <-h.stuck; err != nil {
				t.Errorf("at the end it reported %v", err)
			}
			wantOnce(t, newReader(t, cfg.Brokers).committed(t, cfg.Brokers, cfg.TopicPrefix+".pods"), lives(1, 3, 2), second)
		})
	}
}
