package main

import (
	"context"
	"time"
)

// reckoning compares the topics with etcd and with the API server.
func (t *story) reckoning(ctx context.Context) error {
	t.screen.chapter("The reckoning")
	if err := t.awaitAll(ctx); err != nil {
		return err
	}
	history, err := t.readHistory(ctx)
	if err != nil {
		return err
	}
	t.screen.say("What etcd's own history says has happened, against what stands in the topics. ✓ means the same, change by change: each object, op and resourceVersion, each once.")
	verdicts, err := t.judgeAll(history)
	if err != nil {
		return err
	}
	table := newTable("llrrl", "kind", "", "in etcd", "in the topic", "")
	for _, v := range verdicts {
		v.rows(table)
	}
	table.print(t.screen)
	same := t.tellVerdicts(verdicts)
	agrees, err := t.tellState(ctx)
	if err != nil {
		return err
	}
	t.screen.note("%s in all.", took(time.Since(t.screen.started)))
	if !same || !agrees {
		return errDiffers
	}
	return nil
}

func (t *story) judgeAll(h history) (verdicts []*verdict, err error) {
	_, broken := t.consumer.look(func(l *topicLog) {
		for _, k := range kinds {
			var v *verdict
			if v, err = judge(k, h, l); err != nil {
				return
			}
			verdicts = append(verdicts, v)
		}
	})
	if broken != nil {
		return nil, broken
	}
	return verdicts, err
}

func (t *story) tellVerdicts(verdicts []*verdict) (same bool) {
	same = true
	wrong, disordered, bare, total := 0, 0, 0, 0
	for _, v := range verdicts {
		same = same && v.ok()
		wrong, disordered, bare, total = wrong+sum(v.wrong), disordered+v.disordered, bare+v.bare, total+sum(v.wanted)
		for _, example := range v.examples {
			t.screen.failed("%s", example)
		}
	}
	t.claim(wrong, "None of the "+comma(total)+" changes is missing, and none is there twice.", "changes are missing, or there twice, or not what etcd says.")
	t.claim(disordered, "The records of each object are in the order of its resourceVersions, in one partition.", "records are out of order.")
	t.claim(bare, "A tombstone follows every deletion at once.", "deletions have no tombstone.")
	return same
}

func sum(byOp map[string]int) (n int) {
	for _, m := range byOp {
		n += m
	}
	return n
}

// claim prints what holds, or how often it does not.
func (t *story) claim(failures int, holds, fails string) {
	if failures == 0 {
		t.screen.done("%s", holds)
		return
	}
	t.screen.failed("%s %s", comma(failures), fails)
}

// tellState replays the topics and compares the outcome with the cluster.
func (t *story) tellState(ctx context.Context) (same bool, err error) {
	same, total := true, 0
	for _, k := range kinds {
		var records []*record
		if _, err := t.consumer.look(func(l *topicLog) { records = l.by(k) }); err != nil {
			return false, err
		}
		objects, differences, err := t.compareState(ctx, k, records)
		if err != nil {
			return false, err
		}
		total += objects
		for _, d := range differences[:min(5, len(differences))] {
			t.screen.failed("%s", d)
		}
		same = same && len(differences) == 0
	}
	if same {
		t.screen.done("Replayed into a map, the topics give the %s objects of the cluster, field by field.", comma(total))
	} else {
		t.screen.failed("Replayed into a map, the topics do not give the objects of the cluster.")
	}
	return same, nil
}
