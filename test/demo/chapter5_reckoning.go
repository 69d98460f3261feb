package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"kubecdc/test/oracle"
)

// errDiffers is the verdict that the demo must not give.
var errDiffers = errors.New("the topics differ from what happened")

var opNames = map[string]string{"r": "in the snapshot", "c": "created", "u": "updated", "d": "deleted"}

// reckoning compares the topics with etcd and with the API server.
func (t *tour) reckoning(ctx context.Context) error {
	t.screen.chapter("The reckoning")
	if err := t.awaitAll(ctx); err != nil {
		return err
	}
	t.screen.say("What etcd's own history says has happened, against what stands in the topics. ✓ means the same, change by change: each object, op and resourceVersion, each once.")
	table, all := newTable("llrrl", "kind", "", "in etcd", "in the topic", ""), &oracle.Verdict{}
	for _, k := range kinds {
		v, err := t.judge(ctx, k)
		if err != nil {
			return err
		}
		addRows(table, k, v)
		all.Changes, all.Objects = all.Changes+v.Ops["r"].Etcd+v.Changes, all.Objects+v.Objects
		all.Lost, all.Repeated, all.Reordered, all.Wrong = all.Lost+v.Lost, all.Repeated+v.Repeated, all.Reordered+v.Reordered, all.Wrong+v.Wrong
		for _, example := range v.Examples[:min(5, len(v.Examples))] {
			t.screen.failed("%s", example)
		}
	}
	table.print(t.screen)
	t.claim(all.Lost+all.Repeated, "None of the "+comma(all.Changes)+" changes is missing, and none is there twice.", "changes are missing, or there twice.")
	t.claim(all.Reordered, "The records of each object are in the order of its resourceVersions, in one partition.", "records are out of order.")
	t.claim(all.Wrong, "Each has the state before it, and a tombstone follows every deletion. Replayed into a map, the topics give the "+comma(all.Objects)+
		" objects of the cluster, field by field.", "records or objects are not as they are in etcd and in the cluster.")
	t.screen.remark("%s in all.", took(time.Since(t.screen.started)))
	if all.Lost+all.Repeated+all.Reordered+all.Wrong > 0 {
		return errDiffers
	}
	return nil
}

// judge has the oracle compare a kind's topic, and compares the first list with what was alive when it was taken.
func (t *tour) judge(ctx context.Context, k kind) (v *oracle.Verdict, err error) {
	history, err := t.stack.kube.EtcdHistory(ctx, k.Prefix, 1)
	if err != nil {
		return nil, err
	}
	_, broken := t.consumer.read(func(l *topicLog) {
		if v, err = oracle.Judge(ctx, t.stack.kube, &l.Log, topicPrefix, k); err != nil {
			return
		}
		alive, snapshot := map[string]bool{}, l.SnapshotEnd(k.ID())
		for _, e := range history {
			if key := strings.TrimPrefix(e.Key, k.Prefix); e.Revision > snapshot {
				break
			} else if alive[key] = true; e.Op == "d" {
				delete(alive, key)
			}
		}
		v.Ops["r"] = oracle.Count{Etcd: len(alive), Log: l.snapshot[topicOf(k)]}
		if count := v.Ops["r"]; count.Etcd != count.Log {
			v.Report(&v.Lost, "the first list of %s has %d objects, and etcd had %d", k.ID(), count.Log, count.Etcd)
		}
	})
	return v, errors.Join(broken, err)
}

// addRows adds a line for each op that there is.
func addRows(t *table, k kind, v *oracle.Verdict) {
	name := k.ID()
	for _, op := range []string{"r", "c", "u", "d"} {
		count := v.Ops[op]
		if count == (oracle.Count{}) {
			continue
		}
		mark := cell{green, "✓"}
		if count.Etcd != count.Log || v.Lost+v.Repeated+v.Reordered+v.Wrong > 0 {
			mark = cell{red, "✗"}
		}
		t.add(cell{plain, name}, cell{plain, op + "  " + opNames[op]}, cell{plain, comma(count.Etcd)}, cell{plain, comma(count.Log)}, mark)
		name = ""
	}
}

// claim prints what holds, or how often it does not.
func (t *tour) claim(failures int, holds, fails string) {
	if failures == 0 {
		t.screen.done("%s", holds)
		return
	}
	t.screen.failed("%s %s", comma(failures), fails)
}
