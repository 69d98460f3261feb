package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
	"kubecdc/test/sinktest"
)

// owner writes a slot's batches like the exporter. After an error it opens the slot again, goes on from the tail, and never
// writes a recovered batch again.
type owner struct {
	cfg     kafka.Config
	slot    int
	epoch   int64
	from    sinks.Durable
	log     sinks.Log
	sink    *kafka.Sink
	batches []*change.Batch // durable batches
	reopens int
}

func (o *owner) open(t *testing.T) error {
	if o.sink != nil {
		o.sink.Close()
	}
	o.epoch++
	o.reopens++
	o.sink = newSink(t, o.cfg)
	opened, err := o.sink.Open(servers.Context(t), o.slot, o.epoch, o.from)
	if err != nil {
		return err
	}
	o.log = opened.Log
	recovered, lost, err := sinktest.Tail(servers.Context(t), opened)
	if lost != nil {
		return lost
	}
	for _, r := range recovered {
		o.durable(&r.Batch, r.Offsets)
	}
	return err
}

func (o *owner) durable(b *change.Batch, offsets change.Offsets) {
	o.batches = append(o.batches, b)
	o.from = sinks.Durable{Seq: b.Seq, Offsets: o.from.Offsets.Merge(offsets)}
}

// run writes until done returns true, each write with a deadline. It leaves processor time to others, since faults take long.
func (o *owner) run(t *testing.T, deadline time.Duration, done func() bool) error {
	if err := o.open(t); err != nil {
		return err
	}
	for pace := time.Tick(50 * time.Millisecond); !done(); <-pace {
		b := lives(o.from.Seq+1, 26, 8)
		b.Slot, b.Epoch = o.slot, o.epoch
		for i := range b.Changes {
			b.Changes[i].Namespace = fmt.Sprint("slot-", o.slot)
		}
		ctx, cancel := context.WithTimeout(servers.Context(t), deadline)
		offsets, err := o.log.Write(ctx, b)
		cancel()
		if err == nil {
			o.durable(b, offsets)
			continue
		}
		t.Logf("slot %d batch %d: %v", o.slot, b.Seq, err)
		if err := o.open(t); err != nil {
			return err
		}
	}
	return nil
}

// underFaults runs several slots on the same topics while breaks runs, then compares the log with what was written.
func underFaults(t *testing.T, cfg kafka.Config, readFrom []string, deadline time.Duration, breaks func(written func() int)) {
	t.Helper()
	var wg sync.WaitGroup
	var stop atomic.Bool
	var written atomic.Int64
	owners := make([]*owner, 3)
	for i := range owners {
		owners[i] = &owner{cfg: cfg, slot: i}
		wg.Go(func() {
			o := owners[i]
			seq := uint64(0)
			err := o.run(t, deadline, func() bool {
				written.Add(int64(o.from.Seq - seq))
				seq = o.from.Seq
				return stop.Load()
			})
			if err != nil {
				t.Errorf("slot %d: %v", i, err)
			}
		})
	}
	breaks(func() int { return int(written.Load()) })
	stop.Store(true)
	wg.Wait()
	var all []*change.Batch
	for _, o := range owners {
		t.Logf("slot %d: %d batches, opened %d times", o.slot, len(o.batches), o.reopens)
		all = append(all, o.batches...)
		o.sink.Close()
	}
	r := newReader(t, readFrom)
	wantOnce(t, r.committed(t, readFrom, cfg.TopicPrefix+".pods"), all...)
	cfg.Brokers = readFrom
	holeIn(t, cfg, "")
}

// await waits for n more batches.
func await(t *testing.T, written func() int, n int) {
	t.Helper()
	from := written()
	servers.Await(t, fmt.Sprintf("%d batches", n), func() (bool, error) { return written() >= from+n, nil })
}

// Connections break at any moment, so requests whose answer was lost are sent again. Every record is in the log once.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	broker := servers.LendKafka(t)
	for name, delivery := range deliveries {
		t.Run(name, func(t *testing.T) {
			cfg := delivery(newConfig(t, broker.ProxiedBrokers))
			underFaults(t, cfg, broker.Brokers, time.Minute, func(written func() int) {
				await(t, written, 3)
				for range 20 {
					if rand.IntN(2) == 0 {
						broker.Proxy.Drop()
					} else {
						broker.Proxy.CutAfter(rand.IntN(2000))
					}
					time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
				}
				mustDo(t, broker.Proxy.Restore())
				await(t, written, 9)
			})
		})
	}
}

// The broker is stopped, killed and frozen during writes. A write succeeds or, after its deadline, fails, and the slot is opened
// again. Every batch is in the log once.
func TestSlowBrokerRestarts(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	for name, delivery := range inTransactions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker := servers.LendKafka(t)
			cfg := delivery(newConfig(t, broker.Brokers))
			cfg.RequestTimeout = 2 * time.Second
			underFaults(t, cfg, broker.Brokers, 3*time.Second, func(written func() int) {
				await(t, written, 6)
				mustDo(t, broker.Restart(servers.Context(t)))
				await(t, written, 6)
				broker.Kill()
				mustDo(t, broker.Start(servers.Context(t)))
				await(t, written, 6)
				mustDo(t, broker.Pause())
				time.Sleep(5 * time.Second) // longer than a write may take
				mustDo(t, broker.Resume())
				await(t, written, 6)
			})
		})
	}
}

func startKafka(t *testing.T, o servers.KafkaOptions) *servers.Kafka {
	t.Helper()
	servers.Need(t)
	k, err := servers.StartKafka(servers.Context(t), o)
	mustDo(t, err)
	t.Cleanup(func() {
		if err := k.Stop(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// Open retries while no broker can be reached, until its context ends.
func TestUnreachable(t *testing.T) {
	cfg := newConfig(t, []string{"127.0.0.1:1"})
	ctx, cancel := context.WithTimeout(servers.Context(t), 300*time.Millisecond)
	defer cancel()
	_, err := newSink(t, cfg).Open(ctx, 0, 1, sinks.Durable{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open = %v, want the context's error", err)
	}
	t.Log(err)
}
