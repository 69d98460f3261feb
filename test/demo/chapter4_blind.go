package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"kubecdc/change"
)

// blind kills the exporter in the middle of its work and lets the cluster go on without it. Then it takes away the watch history that a
// resume needs.
func (t *tour) blind(ctx context.Context) error {
	t.screen.chapter("Killed, and blind for a while")
	if err := t.killInABurst(ctx); err != nil {
		return err
	}
	before := t.cluster.writes.Load()
	if err := t.cluster.run(ctx, t.cluster.unseen()); err != nil {
		return err
	}
	t.screen.say("%s more changes while it is dead: objects updated several times over, objects that live and die unseen, names deleted and created again.",
		comma(t.cluster.writes.Load()-before))
	if err := t.restartAPIServer(ctx); err != nil {
		return err
	}
	if err := t.recover(ctx); err != nil {
		return err
	}
	t.tellLives()
	t.screen.say("And on it goes:")
	return t.show(ctx, []shown{
		{orders, orderName(1001), t.cluster.update(orders, orderName(1001), orderState("delivered"))},
		{deployments, "web", t.cluster.deletion(deployments, "web")},
	})
}

// killInABurst is kill -9 while changes pour in, so that it strikes a batch in flight as likely as not.
func (t *tour) killInABurst(ctx context.Context) error {
	burst := t.cluster.burst()
	var before, seen int
	_, _ = t.consumer.read(func(l *topicLog) { before = l.data })
	written := make(chan error, 1)
	go func() { written <- t.cluster.run(ctx, burst) }()
	err := t.await(ctx, "the burst", func(l *topicLog) bool {
		seen = l.data - before
		return seen >= count(burst)/3
	})
	if err != nil {
		return err
	}
	t.exporter.Kill()
	t.screen.say("A burst of %d changes; when %d of them are in the topics: kill -9 %d.", count(burst), seen, t.exporter.pid())
	return <-written
}

// restartAPIServer restarts the API server. Its new watch cache answers 410 Gone to a watch from an earlier version.
func (t *tour) restartAPIServer(ctx context.Context) error {
	defer t.screen.wait("the API server to restart")()
	began := time.Now()
	if err := t.stack.kube.RestartAPIServer(ctx); err != nil {
		return err
	}
	t.screen.say("The API server is restarted (%s): its watch cache is empty now, so that a watch which resumes from before gets 410 Gone.",
		took(time.Since(began)))
	return nil
}

// recover starts the exporter again and shows its gap records.
func (t *tour) recover(ctx context.Context) (err error) {
	began := time.Now()
	if t.exporter, err = t.stack.startExporter(); err != nil {
		return err
	}
	t.screen.say("The exporter is started again. It fences the dead one off and goes on from the checkpoint, which is where the topics end: nothing is sent twice.")
	if err := t.awaitReady(ctx); err != nil {
		return err
	}
	err = t.await(ctx, "the gaps to be recovered", func(l *topicLog) bool {
		for _, k := range kinds {
			if l.gap(k) == nil {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	if err := t.awaitAll(ctx); err != nil {
		return err
	}
	t.screen.done("Up to date again, %s after the start. The gap records in %s.control say:",
		took(time.Since(began)), topicPrefix)
	t.tellGaps()
	return nil
}

func (t *tour) tellGaps() {
	table := newTable("lrrlrrr", "stream", "from", "to", "complete", "recovered", "inferred", "took")
	var reasons []string
	requests := 0
	_, _ = t.consumer.read(func(l *topicLog) {
		for _, k := range kinds {
			table.add(gapRow(k, l.gap(k))...)
			requests += l.gap(k).Requests
			if reason := l.gap(k).Reason; reason != "" {
				reasons = append(reasons, fmt.Sprintf("%s: %s", k, reason))
			}
		}
	})
	table.print(t.screen)
	t.screen.remark("Read back by %s requests, at most 1,000 a second (KUBECDC_BACKFILL_MAX_QPS).", comma(requests))
	for _, reason := range reasons {
		t.screen.warn("%s", reason)
	}
}

func gapRow(k kind, g *change.Gap) []cell {
	complete := cell{green, "yes"}
	if !g.Complete {
		complete = cell{yellow, "no"}
	}
	row := append(cells(plain, k.String(), string(g.From), string(g.To)), complete)
	return append(row, cells(plain, comma(g.Recovered), comma(g.Inferred), took(time.Duration(g.ElapsedMs)*time.Millisecond))...)
}

// tellLives shows what no list could show: the life of a deleted object, and a name that went to a new object.
func (t *tour) tellLives() {
	t.screen.say("A list could not have told these. Each change has a record of its own, at its own resourceVersion:")
	_, _ = t.consumer.read(func(l *topicLog) {
		t.tellLife(l, pods, ghostName(3), "lived and died")
		t.tellLife(l, deployments, appName(302), "one name, three objects")
		t.tellLife(l, configmaps, settingsName(3), "updated thrice")
	})
}

func (t *tour) tellLife(l *topicLog, k kind, name, what string) {
	var life []string
	for _, r := range l.recordsOf(k, name) {
		if r.Gap != "" {
			life = append(life, fmt.Sprintf("%s %s", t.screen.paint(opStyles[r.Op], r.Op), t.screen.paint(dim, "@")+string(r.Version)))
		}
	}
	t.screen.print(fmt.Sprintf("   %-22s %s  %s", k.GVR.Resource+"/"+name, strings.Join(life, "  "), t.screen.paint(dim, what)))
}
