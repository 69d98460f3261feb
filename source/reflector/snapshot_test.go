package reflector_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/reflector"
)

// playSnapshot runs a snapshot while the watch is open after the first steps.
func playSnapshot(t *testing.T, l *ledger, options reflector.Options, first, steps []step, snapshot *reflector.Snapshot) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &script{steps: append(first, steps...)}
		l.moved = make(chan struct{})
		r, stop := startStream(t, &rest.Config{Host: "http://script", Transport: s, QPS: -1}, change.NewStream(configMaps, "", "", ""), options, l, &quietObserver{})
		synctest.Wait()
		snapshot.Begin = func(change.ResourceVersion) error { return nil }
		snapshot.Page = func(reflector.SnapshotProgress) error { return nil }
		if err := r.Snapshot(t.Context(), snapshot); err != nil {
			t.Error(err)
		}
		_ = stop()
		s.check(t)
	})
}

// A snapshot writes what the log lacks at its position: another body, a newer version, an unknown object, another object under the
// name, a deletion. What the watch has not come to yet, or has newer already, is left to it.
func TestASnapshotWritesOnlyWhatTheLogLacks(t *testing.T) {
	l := resumed("200", "a a 10", "b b 20", "c c 25", "e e 50", "f f 190", "g g 199", "h h 70")
	first := steps(holds("200", "g g 199"), []step{{want: "watch rv=200", lasts: time.Minute, later: modified("f f 240") + bookmark("250"), hang: true}})
	one := func(o string) step {
		return step{want: "list fields=metadata.name=" + o[:1], body: listed("251", "", o)}
	}
	l.bodies = map[string]string{"default/a": strings.Replace(obj("a a 10"), "v10", "other", 1), "default/b": obj("b b 20")}
	options := plain()
	options.Stored = true
	playSnapshot(t, l, options, first, []step{
		{want: "list metadata limit=1", body: listed("250", "next", "a a 10")},
		{want: "list rv=250 match=Exact limit=2", body: listed("250", "p2", "a a 10", "b b 20")},
		one("a a 10"),
		{want: "list continue=p2 limit=2", status: 503, body: failure(503, "ServiceUnavailable")},
		{want: "list continue=p2 limit=2", body: listed("250", "p3", "c c 30", "d d 40")},
		one("c c 30"), one("d d 40"),
		{want: "list continue=p3 limit=2", body: listed("250", "p4", "f f 240", "g g 60")},
		{want: "list continue=p4 limit=2", body: listed("250", "", "h y 80")},
		one("h y 80"),
	}, &reflector.Snapshot{})
	expect(t, l, "u a@10? u c@30? c d@40? d h@70? c h@80? u f@240 d e@50? at 250")
}

// An object in doubt that is gone, or newer than the position, when it is read again is left to the watch. A list that expires is
// followed by another one, from the last key on.
func TestASnapshotLeavesToTheWatchWhatItWillDeliver(t *testing.T) {
	l := resumed("200", "a a 10", "b b 20", "c c 25")
	first := steps(holds("200", "c c 25"), []step{{want: "watch rv=200", lasts: time.Minute, later: deleted("b b 240") + modified("c c 245") + bookmark("250"), hang: true}})
	playSnapshot(t, l, plain(), first, []step{
		{want: "list metadata limit=1", body: listed("230", "", "a a 10")},
		{want: "list rv=230 match=Exact limit=2", body: listed("230", "p2", "a a 10", "b b 30")},
		{want: "list fields=metadata.name=b", body: listed("251", "")},
		{want: "list continue=p2 limit=2", status: 410, body: gone("inconsistent")},
		{want: "list metadata limit=1", body: listed("235", "", "a a 10")},
		{want: "list rv=235 match=Exact limit=2", body: listed("235", "p2", "a a 15", "b b 30")},
		{want: "list continue=p2 limit=2", body: listed("235", "", "c c 30")},
		{want: "list fields=metadata.name=c", body: listed("251", "", "c c 245")},
	}, &reflector.Snapshot{})
	expect(t, l, "at 200") // it ended before the watch delivered anything
}

// A snapshot of all objects leaves the log of the stream alone.
func TestASnapshotOfAllObjectsGoesToAPlaceOfItsOwn(t *testing.T) {
	l := resumed("200", "a a 10", "b b 20")
	first := steps(holds("200", "b b 20"), []step{{want: "watch rv=200", hang: true}})
	playSnapshot(t, l, plain(), first, []step{
		{want: "list metadata limit=1 labels=x=y", body: listed("230", "", "a a 10")},
		{want: "list rv=230 match=Exact limit=2 labels=x=y", body: listed("230", "p2", "a a 10", "b b 20")},
		{want: "list continue=p2 limit=2 labels=x=y", body: listed("230", "", "c c 30")},
	}, &reflector.Snapshot{All: true, Labels: "x=y", After: "default/a"})
	expect(t, l, "r b@20 r c@30 at 200")
	for _, c := range l.changes {
		if topic := change.Topic("p", c.Stream.Resource); topic != "p.snapshot_of.configmaps" || change.TopicOf("p", c.Stream.ID()) != topic {
			t.Errorf("topics %s, %s", topic, change.TopicOf("p", c.Stream.ID()))
		}
	}
}

// A snapshot that is asked for before the stream runs waits until its watch is open.
func TestASnapshotWaitsForTheStreamToStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := resumed("200", "a a 10")
		l.moved = make(chan struct{})
		s := &script{steps: steps(holds("200", "a a 10"), []step{{want: "watch rv=200", hang: true},
			{want: "list metadata limit=1", body: listed("200", "", "a a 10")},
			{want: "list rv=200 match=Exact limit=2", body: listed("200", "", "a a 10")}})}
		r := newStream(t, &rest.Config{Host: "http://script", Transport: s, QPS: -1}, change.NewStream(configMaps, "", "", ""), plain(), l, &quietObserver{})
		ctx, cancel := context.WithCancel(t.Context())
		taken, ended := make(chan error, 1), make(chan error, 1)
		go func() {
			taken <- r.Snapshot(ctx, &reflector.Snapshot{Begin: func(change.ResourceVersion) error { return nil },
				Page: func(reflector.SnapshotProgress) error { return nil }})
		}()
		synctest.Wait()
		go func() { ended <- r.Run(ctx) }()
		if err := <-taken; err != nil {
			t.Error(err)
		}
		cancel()
		<-ended
		s.check(t)
	})
}
