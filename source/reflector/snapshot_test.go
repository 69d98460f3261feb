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

// snapshot returns an act that takes a snapshot.
func snapshot(s reflector.Snapshot) func(*testing.T, *reflector.Reflector) {
	s.Begin = func(change.ResourceVersion) error { return nil }
	s.Page = func(reflector.SnapshotProgress) error { return nil }
	return func(t *testing.T, r *reflector.Reflector) {
		if err := r.Snapshot(t.Context(), &s); err != nil {
			t.Error(err)
		}
	}
}

// Snapshots are taken while the watch is open.
func TestSnapshots(t *testing.T) {
	l := resumed("200", "a a 10", "b b 20", "c c 25", "e e 50", "f f 190", "g g 199", "h h 70")
	l.bodies = map[string]string{"default/a": strings.Replace(obj("a a 10"), "v10", "other", 1), "default/b": obj("b b 20")}
	again := func(o string) step {
		return step{want: "list fields=metadata.name=" + o[:1], body: listed("251", "", o)}
	}
	watch := func(later string) []step {
		return one(step{want: "watch rv=200", lasts: time.Minute, later: later + bookmark("250"), hang: true})
	}
	playAll(t, []scripted{
		// Another body, a newer version, an unknown object, another object under the name, a deletion. What the watch has not come to yet,
		// or has newer already, is left to it.
		{name: "it writes what the log lacks at its position", log: l, options: func(o *reflector.Options) { o.Stored = true },
			act: snapshot(reflector.Snapshot{}), steps: steps(holds("200", "g g 199"), watch(modified("f f 240")), []step{
				{want: "list metadata limit=1", body: listed("250", "next", "a a 10")},
				{want: "list rv=250 match=Exact limit=2", body: listed("250", "p2", "a a 10", "b b 20")},
				again("a a 10"),
				{want: "list continue=p2 limit=2", status: 503, body: failure(503, "ServiceUnavailable")},
				{want: "list continue=p2 limit=2", body: listed("250", "p3", "c c 30", "d d 40")},
				again("c c 30"), again("d d 40"),
				{want: "list continue=p3 limit=2", body: listed("250", "p4", "f f 240", "g g 60")},
				{want: "list continue=p4 limit=2", body: listed("250", "", "h y 80")},
				again("h y 80"),
			}), want: "u a@10? u c@30? c d@40? d h@70? c h@80? u f@240 d e@50? at 250"},
		// An object in doubt is gone, or newer than the position, when it is read again. A list that expires is followed by another one,
		// from the last key on. The snapshot ends before the watch delivers anything.
		{name: "it leaves to the watch what that will deliver", log: resumed("200", "a a 10", "b b 20", "c c 25"),
			act: snapshot(reflector.Snapshot{}), steps: steps(holds("200", "c c 25"), watch(deleted("b b 240")+modified("c c 245")), []step{
				{want: "list metadata limit=1", body: listed("230", "", "a a 10")},
				{want: "list rv=230 match=Exact limit=2", body: listed("230", "p2", "a a 10", "b b 30")},
				{want: "list fields=metadata.name=b", body: listed("251", "")},
				{want: "list continue=p2 limit=2", status: 410, body: gone("inconsistent")},
				{want: "list metadata limit=1", body: listed("235", "", "a a 10")},
				{want: "list rv=235 match=Exact limit=2", body: listed("235", "p2", "a a 15", "b b 30")},
				{want: "list continue=p2 limit=2", body: listed("235", "", "c c 30")},
				{want: "list fields=metadata.name=c", body: listed("251", "", "c c 245")},
			}), want: "at 200"},
		{name: "one of all objects goes to a place of its own", log: resumed("200", "a a 10", "b b 20"),
			act: snapshot(reflector.Snapshot{All: true, Labels: "x=y", After: "default/a"}), steps: steps(holds("200", "b b 20"), []step{
				{want: "watch rv=200", hang: true},
				{want: "list metadata limit=1 labels=x=y", body: listed("230", "", "a a 10")},
				{want: "list rv=230 match=Exact limit=2 labels=x=y", body: listed("230", "p2", "a a 10", "b b 20")},
				{want: "list continue=p2 limit=2 labels=x=y", body: listed("230", "", "c c 30")},
			}), want: "r b@20 r c@30 at 200", inspect: func(t *testing.T, s *script) {
				for _, c := range s.log.changes {
					if topic := change.Topic("p", c.Stream.Resource); topic != "p.snapshot_of.configmaps" || change.TopicOf("p", c.Stream.ID()) != topic {
						t.Errorf("topics %s, %s", topic, change.TopicOf("p", c.Stream.ID()))
					}
				}
			}},
	})
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
		taken, ended := make(chan bool), make(chan error, 1)
		go func() {
			snapshot(reflector.Snapshot{})(t, r)
			close(taken)
		}()
		synctest.Wait()
		go func() { ended <- r.Run(ctx) }()
		<-taken
		cancel()
		<-ended
		s.check(t)
	})
}
