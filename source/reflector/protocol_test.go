package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/discovery"
	"kubecdc/source/reflector"
)

// The rows of docs/protocol.md that a real server can't be made to show at will.

func steps(groups ...[]step) (all []step) {
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

func one(s step) []step { return []step{s} }

func onlyGap(t *testing.T, l *ledger) change.Gap {
	t.Helper()
	all := gaps(l.controls)
	if len(all) != 1 {
		t.Fatalf("%d gap records, want 1: %+v", len(all), all)
	}
	return all[0]
}

func TestWatch410ComparesAList(t *testing.T) {
	for name, c := range map[string]struct {
		answer step
		want   string
	}{
		"as HTTP status": {step{status: 410, body: gone("")}, "u a@101? c c@150? d b@90? at 200, gap 100-200 incomplete 3 inferred 1 c 1 u 1 d"},
		"as ERROR event": {step{body: errorEvent(gone(""))}, "u a@101? c c@150? d b@90? at 200, gap 100-200 incomplete 3 inferred 1 c 1 u 1 d"},
		"after events":   {step{body: modified("a a 101") + errorEvent(gone(""))}, "u a@101 c c@150? d b@90? at 200, gap 101-200 incomplete 2 inferred 1 c 1 d"},
	} {
		c.answer.want = "watch rv=100"
		playAll(t, []scripted{{name: name, log: resumed("100", "a a 99", "b b 90"),
			steps: steps(holds("100", "a a 99"), []step{c.answer,
				{want: "list limit=2", body: listed("200", "", "a a 101", "c c 150")},
				{want: "watch rv=200", hang: true}}), want: c.want}})
	}
	playAll(t, []scripted{{name: "after fresh connections", log: resumed("100", "a a 99"),
		options: func(o *reflector.Options) { o.FreshTries = 2 },
		steps: steps(holds("100", "a a 99"), expired("100"), []step{
			{want: "watch rv=100", body: errorEvent(gone(""))},
			{want: "watch rv=100", body: modified("a a 101"), hang: true},
		}), want: "u a@101 at 101"}})
}

func TestErrorsOfTheServerAreWaitedOut(t *testing.T) {
	for name, c := range map[string]struct {
		answer   step
		min, max time.Duration
	}{
		"504 too large resource version":  {step{status: 504, body: tooLarge}, time.Second, 2 * time.Second},
		"504 as ERROR event":              {step{body: errorEvent(tooLarge)}, time.Second, 2 * time.Second},
		"429 with Retry-After":            {step{status: 429, after: "7", body: failure(429, "TooManyRequests")}, 7 * time.Second, 9 * time.Second},
		"503 with Retry-After":            {step{status: 503, after: "3", body: "<html>proxy</html>"}, 3 * time.Second, 4 * time.Second},
		"503 with a Retry-After of a day": {step{status: 503, after: "86400", body: "<html>proxy</html>"}, time.Minute, 80 * time.Second},
		"500":                             {step{status: 500, body: failure(500, "InternalError")}, 0, time.Second},
		"refused":                         {step{err: fmt.Errorf("dial: %w", syscall.ECONNREFUSED)}, 0, time.Second},
		"reset":                           {step{body: bookmark("100"), cut: true}, 0, time.Second},
		"no answer":                       {step{err: errors.New("broken")}, 0, time.Second},
		"cut in an event":                 {step{body: modified("a a 101")[:40], cut: true}, 0, time.Second},
		"ended in an event":               {step{body: modified("a a 101")[:40]}, 0, time.Second},
		"silent":                          {step{hang: true}, 3 * time.Minute, 3*time.Minute + time.Second},
	} {
		c.answer.want = "watch rv=100"
		held := holds("100", "a a 99")
		playAll(t, []scripted{{name: name, log: resumed("100", "a a 99"), steps: steps(held, one(c.answer), held, []step{
			{want: "watch rv=100", body: modified("a a 101"), hang: true},
		}), want: "u a@101 at 101", inspect: func(t *testing.T, s *script) {
			if wait := s.wait(3); wait < c.min || wait > c.max {
				t.Errorf("the server was left alone for %s, want %s to %s", wait, c.min, c.max)
			}
		}}})
	}
}

func TestWhatIsNotKnownIsTolerated(t *testing.T) {
	const big = "9999999999999999999999998" // 25 digits, above 2^64
	next, more := "9999999999999999999999999", "10000000000000000000000000"
	odd := strings.Replace(modified("a a 102"), `{"type"`, `{"new":{"x":[1,"}"]},"type"`, 1)
	playAll(t, []scripted{
		{name: "versions are numbers of any length", steps: steps([]step{
			{want: "list limit=2", body: listed(big, "", "a a 10000000000000000000", "b b 9")},
			{want: "watch rv=" + big, body: modified("b b "+more) + modified("b b "+next) + deleted("b b 10000000000000000000000001") +
				bookmark("10000000000000000000000002"), cut: true},
		}, holds("10000000000000000000000003", "a a 10000000000000000000"), one(step{want: "watch rv=10000000000000000000000002", hang: true})),
			want: "r a@10000000000000000000 r b@9 u b@" + more + " d b@10000000000000000000000001 at 10000000000000000000000002, " +
				"snapshot-begin, snapshot-end 2"},
		{name: "unknown types and members", log: resumed("100", "a a 99"),
			steps: steps(holds("100", "a a 99"), []step{{want: "watch rv=100", hang: true,
				body: `{"type":"SOMETHING","object":{"x":1}}` + "\n\n" + odd + `{"object":{},"type":"BOOKMARK2"}` + "\n" + modified("a a 103")}}),
			want: "u a@102 u a@103 at 103"},
	})
}

func TestMalformedGoesToTheDeadLetterAndTheWatchGoesOn(t *testing.T) {
	bad := []string{
		`{"type":"ADDED","object":{"kind":"ConfigMap","metadata":{"name":"x","uid":"u"}}}`,                         // no version
		`{"type":"ADDED","object":{"kind":"ConfigMap","metadata":{"name":"x","uid":"u","resourceVersion":"abc"}}}`, // no number
		`{"type":"ADDED","object":"text"}`, // no object
		`{"type":"ADDED","object":{"metadata":{"name":"x","uid":"u","resourceVersion":"101"},"data":{"k":tru}}}`,                    // no literal
		`{"type":"ADDED","object":{"metadata":{"name":"x","uid":"u","resourceVersion":"101"},"data":{"k":1,}}}`,                     // a comma too many
		`{"type":"ADDED","object":{"metadata":{"name":"x","uid":"u","resourceVersion":"101"},"data":{"k":"` + "\x01" + `"}}}`,       // a control character
		`{"type":"ADDED","object":{"metadata":{"name":"x","uid":"u","resourceVersion":"101"},"data":["k":1]}}`,                      // brackets
		`{"type":"ADDED","object":{"metadata":{"name":"x","uid":"u","resourceVersion":"101","managedFields":[{"a" 1}]},"data":{}}}`, // deep
		`{"type":"ADDED","object":{"metadata":{"name":"` + strings.Repeat("x", 70_000) + `","uid":"u","resourceVersion":"101"}}}`,   // as a Role's may be
		`{"type":"BOOKMARK","object":{"metadata":{}}}`,
	}
	play(t, scripted{log: resumed("100", "a a 99"), steps: steps(holds("100", "a a 99"), []step{{want: "watch rv=100", hang: true,
		body: strings.Join(bad, "\n") + "\n" + modified("a a 102")}}), want: "u a@102 at 102, 10 dead letters",
		inspect: func(t *testing.T, s *script) {
			for i, b := range bad {
				if got := s.log.raws[i]; string(got.Bytes) != b || got.Reason == "" {
					t.Fatalf("dead letter %d is not %.200s: %.500v", i, b, got)
				}
			}
		}})
}

// A deletion can't be read, so the server's present state shows which object was deleted.
func TestADeletionThatCantBeReadIsFoundByAList(t *testing.T) {
	for name, bad := range map[string]string{
		"without uid and version": `{"type":"DELETED","object":{"kind":"ConfigMap","metadata":{"namespace":"default","name":"b"}}}`,
		"without a name":          `{"type":"DELETED","object":{"kind":"ConfigMap","metadata":{}}}`,
		"malformed":               `{"type":"DELETED","object":{"metadata":{"namespace":"default","name":"b","uid":"b","resourceVersion":"150"},"data":{"k":tru}}}`,
		"no object":               `{"type":"DELETED","object":null}`,
	} {
		playAll(t, []scripted{{name: name, log: resumed("100", "a a 99", "b b 90"), steps: steps(holds("100", "a a 99"), []step{
			{want: "watch rv=100", body: modified("a a 101") + bad + "\n", hang: true},
			{want: "list limit=2", body: listed("200", "", "a a 101")},
			{want: "watch rv=200", hang: true}}),
			want: "u a@101 d b@90? at 200, gap 101-200 incomplete 1 inferred 1 d, 1 dead letters"}})
	}
	playAll(t, []scripted{{name: "of an object that the log does not have", log: resumed("100", "a a 99"),
		steps: steps(holds("100", "a a 99"),
			[]step{{want: "watch rv=100", hang: true,
				body: `{"type":"DELETED","object":{"metadata":{"namespace":"default","name":"other"}}}` + "\n" + modified("a a 101")}}),
		want: "u a@101 at 101, 1 dead letters"}})
}

// A server that answers a watch with 200 and no event is no API server. The watch has failed, and no part of the answer is a dead
// letter.
func TestAnAnswerToAWatchThatIsNoEvent(t *testing.T) {
	for name, answer := range map[string]string{
		"text":              "upstream connect error\n",
		"a gateway's error": `{"type":"about:blank","title":"Bad Gateway","status":502}` + "\n",
		"a Status":          failure(502, "BadGateway") + "\n",
		"a list":            listed("200", "", "c c 150") + "\n",
		"gzip":              "\x1f\x8b\x08\x00\n\xff\n",
		"null":              "null\n",
	} {
		held, bad := holds("100", "a a 99"), one(step{want: "watch rv=100", body: answer})
		late := holds("100", "a a 99")
		late[0].pause = 100 * time.Millisecond
		playAll(t, []scripted{{name: name, log: resumed("100", "a a 99"), steps: steps(held, bad, held, bad, late, bad, held,
			one(step{want: "watch rv=100", body: modified("a a 101"), hang: true})), want: "u a@101 at 101",
			reports: "no API server",
			inspect: func(t *testing.T, s *script) {
				if !s.observer.was(change.StateWaiting) {
					t.Errorf("states %v", s.observer.states)
				}
			}}})
	}
}

// Discovery may report a change in any state. Another version is read from the same position. A removed resource's objects end, and when
// the resource is back, they are a snapshot again.
func TestAResourceThatChangesIsAdopted(t *testing.T) {
	next := configMaps
	next.Version = "v2"
	play(t, scripted{steps: steps([]step{
		{want: "list limit=2", body: listed("100", "next", "a a 10", "b b 20")[:150], hang: true}, // hangs in a page
		{want: "list limit=2", body: listed("100", "", "a a 10", "b b 20")},
		{want: "watch rv=100", body: modified("a a 101"), hang: true},
		{want: "watch rv=101", status: 503, after: "600", body: "down"}, // a long pause
	}, holds("102", "a a 101"), []step{
		{want: "watch rv=101", hang: true},
		{want: "list limit=2", body: listed("300", "", "a q 250")},
		{want: "watch rv=300", hang: true},
	}), act: func(t *testing.T, r *reflector.Reflector) {
		for _, resource := range []*change.Resource{&next, &configMaps, &next, nil, &next} {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			r.SetResource(resource)
		}
		time.Sleep(10 * time.Second)
	}, want: "r a@10 r b@20 u a@101 d a@101? d b@20? r a@250 at 300, " +
		"snapshot-begin, snapshot-end 2, stream-end, snapshot-begin, snapshot-end 1"})
}

// deselected is the checkpoint of a stream that was deselected. While it is selected again, its resource changes, and the checkpoint lags.
type deselected struct {
	*ledger
	stream *reflector.Reflector
}

func (d *deselected) Position(context.Context, change.StreamID) (change.Position, bool, error) {
	return change.Position{ResourceVersion: "100", Ended: change.EndedDeselected}, true, nil
}

func (d *deselected) Send(ctx context.Context, item change.Item) error {
	err := d.ledger.Send(ctx, item)
	if item.Control != nil {
		next := configMaps
		next.Version = "v2"
		d.stream.SetResource(&next)
	}
	return err
}

// A step that is interrupted is done again, and what it recorded is not.
func TestAStreamIsSelectedAgainOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := &script{steps: []step{{want: "watch rv=100", hang: true}}}, &deselected{ledger: newLedger()}
		client := must[*discovery.Server](t)(discovery.Connect(&rest.Config{Host: "http://script", Transport: s, QPS: -1}))
		d.stream = reflector.New(change.NewStream(configMaps, "", "", ""), client.Client(), plain(), d, d, &quietObserver{}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.stream.Run(ctx) }()
		synctest.Wait()
		cancel()
		<-done
		if len(d.controls) != 1 || d.controls[0].Type != change.ControlStreamReselected {
			t.Errorf("the control records are %+v, want one that the stream is selected again", d.controls)
		}
	})
}
