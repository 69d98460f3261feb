package kafka_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/test/servers"
)

// A topic is deleted and created again, with as many or more partitions, while the log is open or not. Others write to it until
// its ends are after the checkpoint's offsets. The next owner learns that the log has lost that topic's records, and only these.
func TestATopicIsMadeAgain(t *testing.T) {
	t.Parallel()
	broker := servers.SharedKafka(t)
	for _, partitions := range []int32{3, 5} {
		for _, while := range []string{"open", "closed"} {
			for _, grown := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d partitions/%s/grown %v", partitions, while, grown), func(t *testing.T) {
					t.Parallel()
					cfg := newConfig(t, broker.Brokers)
					o := &owner{cfg: cfg}
					mustDo(t, o.open(t))
					o.write(t, 9)
					if while == "closed" {
						mustDo(t, o.log.Close())
					}
					remake(t, broker.Brokers, cfg.TopicPrefix+".pods", partitions)
					if grown {
						other := &owner{cfg: cfg, slot: 1}
						mustDo(t, other.open(t))
						other.write(t, 60)
					}
					if while == "open" {
						o.writeUntilRefused(t)
					}
					lost := o.wantLost(t, "pods")
					o.record(t, lost)
					o.write(t, 9)
					mustDo(t, o.open(t)) // nothing more is lost
				})
			}
		}
	}
}

// The control topic is created again, and has grown to more than the checkpoint's offset. The tail is gone.
func TestTheControlTopicIsMadeAgain(t *testing.T) {
	t.Parallel()
	broker := servers.SharedKafka(t)
	for _, while := range []string{"open", "closed"} {
		t.Run(while, func(t *testing.T) {
			t.Parallel()
			cfg := newConfig(t, broker.Brokers)
			o := &owner{cfg: cfg}
			mustDo(t, o.open(t))
			o.write(t, 9)
			if while == "closed" {
				mustDo(t, o.log.Close())
			}
			remake(t, broker.Brokers, cfg.TopicPrefix+".control", 1)
			if while == "open" {
				o.writeUntilRefused(t)
			}
			err := o.open(t)
			var lost *sinks.LostTailError
			if !errors.As(err, &lost) || lost.TailRead {
				t.Fatalf("Open = %v, want that the tail is lost", err)
			}
		})
	}
}

// The dead-letter topic is created again. The batch is written again, and nothing of the objects is lost.
func TestTheDeadLetterTopicIsMadeAgain(t *testing.T) {
	t.Parallel()
	broker := servers.SharedKafka(t)
	cfg := newConfig(t, broker.Brokers)
	o := &owner{cfg: cfg}
	mustDo(t, o.open(t))
	letter := func(b *change.Batch) {
		b.Malformed = append(b.Malformed, change.Malformed{Stream: "pods", Bytes: []byte("{"), Reason: "it does not end"})
	}
	o.write(t, 3, letter)
	remake(t, broker.Brokers, cfg.TopicPrefix+".dead-letter", 3)
	b := o.next(3, letter)
	_, err := o.log.Write(servers.Context(t), b)
	if err == nil {
		t.Fatal("the loss of the dead letters is not noticed")
	}
	t.Log(err)
	mustDo(t, o.open(t))
	o.write(t, 3, letter)
}

// next returns the next batch.
func (o *owner) next(n int, changes ...func(*change.Batch)) *change.Batch {
	b := lives(o.from.Seq+1, n, 3)
	b.Slot, b.Epoch = o.slot, o.epoch
	for i := range b.Changes {
		b.Changes[i].Namespace = fmt.Sprint("slot-", o.slot)
	}
	for _, do := range changes {
		do(b)
	}
	return b
}

func (o *owner) write(t *testing.T, n int, changes ...func(*change.Batch)) {
	t.Helper()
	b := o.next(n, changes...)
	offsets, err := o.log.Write(servers.Context(t), b)
	mustDo(t, err)
	o.durable(b, offsets)
}

// writeUntilRefused writes batches without changes, like a quiet stream's, and with some, until the log notices that it was
// broken.
func (o *owner) writeUntilRefused(t *testing.T) {
	t.Helper()
	pace := time.Tick(50 * time.Millisecond)
	for clock := servers.StartClock(); !clock.Late(); <-pace {
		b := o.next(0)
		offsets, err := o.log.Write(servers.Context(t), b)
		if err != nil {
			t.Log(err)
			return
		}
		o.durable(b, offsets)
	}
	t.Fatal("the loss is not noticed")
}

// wantLost opens the slot, which has lost the records of one resource, and nothing after the checkpoint.
func (o *owner) wantLost(t *testing.T, plural string) *sinks.LostTailError {
	t.Helper()
	err := o.open(t)
	var lost *sinks.LostTailError
	if !errors.As(err, &lost) || !lost.TailRead || lost.Gone == nil {
		t.Fatalf("Open = %v, want that records are lost", err)
	}
	if !lost.Gone(change.StreamID(plural)) || lost.Gone("nodes") {
		t.Errorf("the wrong resources are lost: %v", lost)
	}
	return lost
}

// record checkpoints the loss like the exporter, once the log has a record of it.
func (o *owner) record(t *testing.T, lost *sinks.LostTailError) {
	t.Helper()
	b := o.next(0)
	offsets, err := o.log.Write(servers.Context(t), b)
	mustDo(t, err)
	o.durable(b, change.Offsets{}.Merge(lost.Offsets).Merge(offsets))
}

func remake(t *testing.T, brokers []string, topic string, partitions int32) {
	t.Helper()
	admin := kadmOf(t, brokers)
	before, err := admin.ListTopics(servers.Context(t), topic)
	mustDo(t, err)
	answers, err := admin.DeleteTopics(servers.Context(t), topic)
	mustDo(t, errors.Join(err, answers.Error()))
	servers.Await(t, topic+" to be created again", func() (bool, error) {
		answer, err := admin.CreateTopic(servers.Context(t), partitions, 1, nil, topic)
		return err == nil && answer.Err == nil, nil
	})
	servers.Await(t, "the broker to have "+topic+" as it was made again", func() (bool, error) { // its controller has answered
		now, err := admin.ListTopics(servers.Context(t), topic)
		return err == nil && now[topic].Err == nil && now[topic].ID != before[topic].ID, err
	})
}
