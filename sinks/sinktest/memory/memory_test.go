package memory_test

import (
	"context"
	"errors"
	"testing"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/sinktest"
	"kubecdc/sinks/sinktest/memory"
)

func TestContract(t *testing.T) {
	sinktest.Run(t, func(*testing.T) sinktest.Place {
		log := memory.NewLog()
		return sinktest.Place{
			Connect:     func(*testing.T) sinks.Sink { return memory.New(log, sinktest.Name, sinktest.UID) },
			Another:     func(_ *testing.T, cluster, uid string) sinks.Sink { return memory.New(log, cluster, uid) },
			DeadLetters: func(*testing.T) []change.Malformed { return log.DeadLetters() },
		}
	})
}

// died is the context of a process that ends after it has appended so many records.
type died struct {
	context.Context
	after int
}

func (d *died) Err() error {
	if d.after--; d.after < 0 {
		return context.Canceled
	}
	return nil
}

func TestABatchWithoutItsMarkWasNeverWritten(t *testing.T) {
	log := memory.NewLog()
	open := func(epoch int64) *sinks.Opened {
		opened, err := memory.New(log, sinktest.Name, sinktest.UID).Open(t.Context(), 0, epoch, sinks.Durable{})
		if err != nil {
			t.Fatal(err)
		}
		return opened
	}
	stream := change.NewStream(change.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}, "", "", "")
	b := &change.Batch{Epoch: 1, Seq: 1, Malformed: []change.Malformed{{Stream: "pods"}},
		Changes: []change.Change{{Stream: stream, Name: "a"}, {Stream: stream, Name: "b"}}}
	_, err := open(1).Log.Write(&died{t.Context(), len(b.Malformed) + len(b.Changes)}, b)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Write = %v", err)
	}
	again := open(2)
	if tail, _, err := sinktest.Tail(t.Context(), again); len(tail) > 0 || err != nil || len(log.DeadLetters()) > 0 {
		t.Errorf("a batch without its mark is read: %v, %v", tail, err)
	}
	b.Epoch = 2
	if _, err := again.Log.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if tail, _, err := sinktest.Tail(t.Context(), open(3)); len(tail) != 1 || len(tail[0].Batch.Changes) != 2 || err != nil {
		t.Errorf("the batch that was written again is read as %v, %v", tail, err)
	}
}
