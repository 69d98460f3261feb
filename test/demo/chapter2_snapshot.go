package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// snapshot starts the exporter, which has no checkpoint yet and so begins with a list of everything.
func (t *tour) snapshot(ctx context.Context) (err error) {
	t.screen.chapter("The snapshot")
	expected := 0
	for _, k := range builtIn {
		objects, err := t.cluster.objects(ctx, k)
		if err != nil {
			return err
		}
		expected += len(objects)
	}
	t.screen.say("The cluster holds %s objects. The exporter starts: KUBECDC_RESOURCES=%s", comma(expected), resources)
	began := time.Now()
	if t.exporter, err = t.stack.startExporter(); err != nil {
		return err
	}
	if err := t.watchSnapshot(ctx, expected); err != nil {
		return err
	}
	t.screen.done("%s objects are in the topics, %s after the start of the process", comma(expected), took(time.Since(began)))
	t.tellSnapshots()
	return t.awaitReady(ctx)
}

// watchSnapshot draws a bar of what has arrived in the topics, until every first list has ended.
func (t *tour) watchSnapshot(ctx context.Context, expected int) error {
	defer t.screen.setWaiting(nil, "")
	err := t.awaitQuietly(ctx, "the snapshot", func(l *topicLog) bool {
		arrived, ended := 0, 0
		for _, k := range builtIn {
			arrived += l.snapshot[topicOf(k)]
			if l.snapshotEnd(k) != nil {
				ended++
			}
		}
		t.screen.setWaiting(nil, bar(arrived, expected))
		return arrived >= expected && ended == len(builtIn)
	})
	if err == nil {
		t.screen.print(bar(expected, expected))
	}
	return err
}

// bar is a progress bar.
func bar(done, total int) string {
	const width = 50
	full := min(width*done/max(total, 1), width)
	return fmt.Sprintf("   %s%s %s of %s", strings.Repeat("█", full), strings.Repeat("░", width-full), comma(done), comma(total))
}

// tellSnapshots shows the control records of each snapshot.
func (t *tour) tellSnapshots() {
	t.screen.say("What %s.control says of it, so that a consumer knows too:", topicPrefix)
	table := newTable("lrr", "snapshot of", "objects", "complete at resourceVersion")
	_, _ = t.consumer.read(func(l *topicLog) {
		for _, k := range builtIn {
			end := l.snapshotEnd(k)
			table.add(cells(plain, k.String(), comma(*end.Objects), string(end.ResourceVersion))...)
		}
	})
	table.print(t.screen)
}
