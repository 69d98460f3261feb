// Package sinktest is the contract suite: the tests that every sinks.Sink must pass whose log can be read back. It uses only the
// interface.
package sinktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// Place is one empty destination.
type Place struct {
	// Connect returns a sink that writes to it, as a new process would. The suite closes the sink.
	Connect func(t *testing.T) sinks.Sink
	// Another connects like a process that exports another cluster, with the same or another name.
	Another func(t *testing.T, cluster, uid string) sinks.Sink
	// DeadLetters reads the malformed events like any other consumer.
	DeadLetters func(t *testing.T) []change.Malformed
	// Reader reads the log of a cluster. It is nil if such a log has no reader.
	Reader func(t *testing.T, cluster string) sinks.ReadCloser
	// Remove removes by hand what the log has of a resource, which its plural names.
	Remove func(t *testing.T, plural string)
	// NoBefore means that the log has no before-images.
	NoBefore bool
	// ByTopic means that the log knows a resource by the topic of its objects.
	ByTopic bool
	// Reordered means that the log has the members of objects in another order.
	Reordered bool
	// Brief leaves out slow parts that do not depend on records, and parts that measure memory. So several suites can run at
	// once.
	Brief bool
}

// NewPlace returns an empty destination.
type NewPlace func(t *testing.T) Place

// Run runs the suite, its parts in parallel.
func Run(t *testing.T, newPlace NewPlace) {
	run(t, newPlace, slices.Concat(contract, readerContract, auditContract, schemaContract, longContract))
}

// RunReaders runs the parts that are about readers.
func RunReaders(t *testing.T, newPlace NewPlace) {
	run(t, newPlace, slices.Concat(readerContract, auditContract))
}

func run(t *testing.T, newPlace NewPlace, parts []part) {
	for _, tc := range parts {
		t.Run(tc.name, func(t *testing.T) {
			if tc.name != measuresMemory {
				t.Parallel()
			}
			w := &world{newPlace, newPlace(t)}
			isOf := func(parts []part) bool {
				return slices.ContainsFunc(parts, func(p part) bool { return p.name == tc.name })
			}
			if w.place.Brief && isOf(longContract) {
				t.Skip("the suite is brief")
			}
			if w.place.Reader == nil && isOf(slices.Concat(readerContract, auditContract, schemaContract)) {
				t.Skip("nothing reads this log")
			}
			if _, audits := w.sink(t).(sinks.AuditLog); !audits && isOf(auditContract) {
				t.Skip("this log keeps no audit records")
			}
			if _, stores := w.sink(t).(sinks.SchemaLog); !stores && isOf(schemaContract) {
				t.Skip("this log stores no schemas")
			}
			tc.test(t, w)
		})
	}
}

// part is one test of the contract.
type part struct {
	name string
	test func(*testing.T, *world)
}

var contract = []part{
	{"a new slot has nothing to recover", newSlot},
	{"the identity is the same for all processes, and differs between logs", identity},
	{"a batch is recovered by the next owner", recoverBatch},
	{"batches that the checkpoint has are not recovered", knownIsNotRecovered},
	{"only newer batches are recovered, oldest first", onlyNewer},
	{"batch numbers go on under a new owner", goOn},
	{"an older owner is fenced", fenceOlder},
	{"an older owner can't open the slot again", olderCantOpen},
	{"a batch without changes moves its positions", noChanges},
	{"malformed events are stored byte for byte", malformed},
	{"changes of an object keep their order", order},
	{"slots are independent of each other", slotsAreSeparate},
	{"a large batch is recovered completely", largeBatch},
	{"a cancelled write is all or nothing", cancelled},
	{"another cluster of the same name is refused, and fences nobody", anotherCluster},
	{"another cluster of the same name is refused in a slot that is new to the log", anotherClusterElsewhere},
	{"the state of an empty log is empty", emptyState},
	{"the state has the last change of each object, whichever slot wrote it", stateOfSlots},
	{"the state leaves other clusters out", stateOfClusters},
	{"an owner goes on from the state of the log", goOnFromState},
	{"bodies are recovered byte for byte", bodiesAsWritten},
	{"a log that gives bodies has the last one of each object", bodiesOfTheLog},
	{"a log that remembers knows each object's version, and each stream's position", versionsAndPositions},
	{"hostile names and contents stop nothing", hostileObjects},
	{"recovery can be repeated", recoverTwice},
	{"the next owner reads on where reading the tail ended", brokenOff},
	{"an owner that is fenced while it reads the tail reads its own tail, and writes no more", fencedInTheTail},
}

const measuresMemory = "a long tail needs the memory of one batch"

var longContract = []part{
	{"the state of a stream follows its last list", stateOfLists},
	{measuresMemory, longTail},
	{"a log whose first list took many batches answers everything", longList},
}

// readerContract is for the reader of the log.
var readerContract = []part{
	{"a reader finds every change once, with its images", readChanges},
	{"a reader finds a resource without objects", readEmpty},
	{"a reader finds what a query selects", readSelected},
	{"a reader finds what is between two cuts", readBetweenCuts},
	{"a cut that leaves out a slot is before it", readAtUnknownSlot},
	{"a reader follows the log", readAndFollow},
	{"a reader finds the control records of each slot in order", readControls},
	{"a reader gets the order of the log, whichever slots a stream was in", readInOrder},
	{"a reader finds objects in the order of their keys", readByKeys},
	{"a log that has lost nothing is retained from its start", retainedFromTheStart},
	{"what somebody has removed is missed until a gap record says so", removed},
}

const slot = 3

func newSlot(t *testing.T, w *world) {
	_, recovered := w.open(t, slot, 1, sinks.Durable{})
	wantBatches(t, recovered)
}

func identity(t *testing.T, w *world) {
	first, err := w.sink(t).Identity(t.Context())
	if err != nil || first == "" {
		t.Fatalf("identity %q, %v", first, err)
	}
	if again, err := w.sink(t).Identity(t.Context()); again != first {
		t.Errorf("another process has it as %q, not %q: %v", again, first, err)
	}
	elsewhere := &world{w.newPlace, w.newPlace(t)}
	if other, err := elsewhere.sink(t).Identity(t.Context()); err != nil || other == first {
		t.Errorf("another place has the same identity %q, %v", other, err)
	}
}

func recoverBatch(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	b := batch(1, 1, object("a", 10), object("b", 11), gone(object("c", 12)))
	offsets := w.write(t, log, b)
	_, recovered := w.open(t, slot, 2, sinks.Durable{})
	wantBatches(t, recovered, b)
	wantOffsets(t, recovered[0].Offsets, offsets)
}

func bodiesAsWritten(t *testing.T, w *world) {
	if w.place.Reordered {
		t.Skip("the log has the members in another order")
	}
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	c := object("a", 10)
	w.write(t, log, ofPods(1, 1, c))
	_, recovered := w.open(t, slot, 2, sinks.Durable{})
	if got := recovered[0].Batch.Changes[0].After; !bytes.Equal(got, c.After) {
		t.Errorf("recovered body\n%s\nwant\n%s", got, c.After)
	}
	_, _, objects := w.state(t, slot, 3, everything)
	if got := objects["pods default/a"].After; !bytes.Equal(got, c.After) {
		t.Errorf("the state has the body\n%s\nwant\n%s", got, c.After)
	}
}

func knownIsNotRecovered(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	offsets := w.write(t, log, batch(1, 1, object("a", 10)))
	_, recovered := w.open(t, slot, 2, sinks.Durable{Seq: 1, Offsets: offsets})
	wantBatches(t, recovered)
}

func onlyNewer(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	known := w.write(t, log, batch(1, 1, object("a", 10)))
	second, third := batch(1, 2, object("a", 11)), batch(1, 3, object("b", 12))
	w.write(t, log, second)
	w.write(t, log, third)
	_, recovered := w.open(t, slot, 2, sinks.Durable{Seq: 1, Offsets: known})
	wantBatches(t, recovered, second, third)
}

func goOn(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	var known change.Offsets
	known = known.Merge(w.write(t, log, batch(1, 1, object("a", 10))))
	second := batch(2, 2, object("a", 11))
	log, recovered := w.open(t, slot, 2, sinks.Durable{Seq: 1, Offsets: known})
	wantBatches(t, recovered)
	w.write(t, log, second)
	third := batch(3, 3, gone(object("a", 12)))
	log, recovered = w.open(t, slot, 3, sinks.Durable{Seq: 1, Offsets: known})
	wantBatches(t, recovered, second)
	w.write(t, log, third)
	_, recovered = w.open(t, slot, 4, sinks.Durable{Seq: 1, Offsets: known})
	wantBatches(t, recovered, second, third)
}

func fenceOlder(t *testing.T, w *world) {
	old, _ := w.open(t, slot, 1, sinks.Durable{})
	first := batch(1, 1, object("a", 10))
	w.write(t, old, first)
	_, recovered := w.open(t, slot, 2, sinks.Durable{})
	wantBatches(t, recovered, first)
	if _, err := old.Write(t.Context(), batch(1, 2, object("a", 11))); !errors.Is(err, sinks.ErrInvalidWriter) {
		t.Errorf("the older owner's write: error %v, want ErrInvalidWriter", err)
	}
	_, recovered = w.open(t, slot, 3, sinks.Durable{})
	wantBatches(t, recovered, first)
}

func olderCantOpen(t *testing.T, w *world) {
	w.open(t, slot, 7, sinks.Durable{})
	for _, epoch := range []int64{6, 7} {
		_, err := w.sink(t).Open(t.Context(), slot, epoch, sinks.Durable{})
		var newer *sinks.NewerEpochError
		if !errors.As(err, &newer) || newer.Slot != slot || newer.Epoch != 7 {
			t.Errorf("opening with epoch %d after 7: error %v, want a NewerEpochError that says 7", epoch, err)
		}
	}
}

func noChanges(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	b := batch(1, 1)
	w.write(t, log, b)
	_, recovered := w.open(t, slot, 2, sinks.Durable{})
	wantBatches(t, recovered, b)
}

// malformed checks that a malformed event is part of the batch, but is not recovered, since the checkpoint does not need it.
func malformed(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	large := append(bytes.Repeat([]byte("\xff\x00{"), 900_000), 'z')
	rand.Shuffle(len(large), func(i, j int) { large[i], large[j] = large[j], large[i] })
	only := &change.Batch{Slot: slot, Epoch: 1, Seq: 1, Malformed: []change.Malformed{
		{Stream: "pods", Bytes: []byte(`{"metadata":5}`), Reason: "metadata is no object: \xff\x00"},
		{Stream: "nodes", Bytes: large, Reason: "not JSON"}, {Stream: "nodes", Bytes: []byte{}, Reason: "empty"}}}
	mixed := batch(1, 2, object("a", 10), object("b", 11))
	mixed.Malformed = []change.Malformed{{Stream: "pods", Bytes: []byte("x"), Reason: "not JSON"}}
	known := w.write(t, log, only)
	w.write(t, log, mixed)
	_, recovered := w.open(t, slot, 2, sinks.Durable{})
	wantBatches(t, recovered, only, mixed)
	_, recovered = w.open(t, slot, 3, sinks.Durable{Seq: 1, Offsets: known})
	wantBatches(t, recovered, mixed)
	wantMalformed(t, w.place.DeadLetters(t), append(only.Malformed, mixed.Malformed...))
}

func order(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	var changes []change.Change
	for rv := 1; rv < 400; rv++ {
		name := fmt.Sprint("web-", rv%7)
		c := object(name, rv)
		switch rv / 7 % 4 {
		case 1, 2:
			c.Op = change.Update
			c.Before = object(name, rv-1).After
		case 3:
			c = gone(c)
		}
		changes = append(changes, c)
	}
	b := batch(1, 1, changes...)
	w.write(t, log, b)
	_, recovered := w.open(t, slot, 2, sinks.Durable{})
	wantBatches(t, recovered, b)
}

func slotsAreSeparate(t *testing.T, w *world) {
	one, _ := w.open(t, 0, 1, sinks.Durable{})
	other, _ := w.open(t, 64, 1, sinks.Durable{})
	b, c := batch(1, 1, object("a", 10)), batch(1, 1, object("b", 11))
	c.Slot = 64
	b.Slot = 0
	w.write(t, one, b)
	w.write(t, other, c)
	_, recovered := w.open(t, 0, 2, sinks.Durable{})
	wantBatches(t, recovered, b)
	d := batch(1, 2, object("b", 12))
	d.Slot = 64
	w.write(t, other, d) // it was not fenced together with the other slot
	_, recovered = w.open(t, 64, 2, sinks.Durable{})
	wantBatches(t, recovered, c, d)
}

func largeBatch(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	var changes []change.Change
	for i := range 3000 {
		changes = append(changes, padded(fmt.Sprint("pod-", i), i+1, 2000))
	}
	b := batch(1, 1, changes...)
	w.write(t, log, b)
	_, recovered := w.open(t, slot, 2, sinks.Durable{})
	wantBatches(t, recovered, b)
}

// cancelled ends writes at different moments. Whatever their error was, the next owner finds each batch completely or not at all.
func cancelled(t *testing.T, w *world) {
	var from sinks.Durable
	for epoch := int64(1); epoch < 9; epoch++ {
		log, recovered := w.open(t, slot, epoch, from)
		if len(recovered) > 0 {
			wantBatches(t, recovered, numbered(epoch-1, from.Seq+1))
			from = sinks.Durable{Seq: from.Seq + 1, Offsets: from.Offsets.Merge(recovered[0].Offsets)}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(epoch*epoch)*time.Millisecond)
		b := numbered(epoch, from.Seq+1)
		offsets, err := log.Write(ctx, b)
		cancel()
		if err == nil {
			from = sinks.Durable{Seq: b.Seq, Offsets: from.Offsets.Merge(offsets)}
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a write with a deadline: error %v", err)
		}
	}
}

// numbered returns a batch whose objects depend on the epoch.
func numbered(epoch int64, seq uint64) *change.Batch {
	var changes []change.Change
	for i := range 50 {
		changes = append(changes, object(fmt.Sprint("pod-", i), int(epoch)*100+i))
	}
	return batch(epoch, seq, changes...)
}

func recoverTwice(t *testing.T, w *world) {
	log, _ := w.open(t, slot, 1, sinks.Durable{})
	b := batch(1, 1, object("a", 10))
	w.write(t, log, b)
	for epoch := int64(2); epoch < 5; epoch++ {
		_, recovered := w.open(t, slot, epoch, sinks.Durable{})
		wantBatches(t, recovered, b)
	}
}
