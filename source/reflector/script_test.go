package reflector_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/discovery"
	"kubecdc/source/reflector"
)

// A script is an API server that expects an exact sequence of requests and gives each a fixed answer. It runs without a
// network, so that synctest can turn the clock.
type script struct {
	mu    sync.Mutex
	steps []step
	seen  []string
	times []time.Time

	timeouts []int // timeoutSeconds of each request

	places   []change.ResourceVersion // where the log was at each request
	log      *ledger
	observer *quietObserver
}

type step struct {
	want   string // as describe has the request
	status int    // 0: 200
	after  string // Retry-After
	body   string
	lasts  time.Duration          // the connection ends as it should, after so long
	later  string                 // comes then
	drips  func(n int) string     // comes every five seconds, from n=0
	hang   bool                   // the connection stays open, without a byte
	cut    bool                   // the connection breaks after the body
	err    error                  // there is no answer at all
	logAt  change.ResourceVersion // the position of the log then
	pause  time.Duration          // the least time since the request before
}

// describe describes a request in the words of the tests.
func describe(r *http.Request) string {
	q := r.URL.Query()
	text := "list"
	if r.URL.Path == "/version" {
		return "version"
	}
	if q.Get("watch") != "" {
		text = "watch"
	}
	if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
		text += " metadata"
	}
	for _, p := range []string{"resourceVersion", "resourceVersionMatch", "sendInitialEvents", "continue", "limit", "fieldSelector", "labelSelector"} {
		if v := q.Get(p); v != "" {
			text += " " + map[string]string{"resourceVersion": "rv", "resourceVersionMatch": "match", "sendInitialEvents": "initial",
				"fieldSelector": "fields", "labelSelector": "labels"}[p]
			if p == "continue" || p == "limit" {
				text += p
			}
			text += "=" + v
		}
	}
	return text
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	st := step{want: "(nothing)", hang: true}
	if len(s.seen) < len(s.steps) {
		st = s.steps[len(s.seen)]
	}
	s.seen, s.times = append(s.seen, describe(r)), append(s.times, time.Now())
	timeout, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	s.timeouts = append(s.timeouts, timeout)
	if s.log != nil {
		s.log.mu.Lock()
		s.places = append(s.places, s.log.position)
		s.log.mu.Unlock()
	}
	s.mu.Unlock()
	if st.err != nil {
		return nil, st.err
	}
	if st.status == 0 {
		st.status = 200
	}
	reader, writer := io.Pipe()
	go st.write(r.Context(), writer)
	header := http.Header{"Content-Type": {"application/json"}}
	if st.after != "" {
		header.Set("Retry-After", st.after)
	}
	return &http.Response{StatusCode: st.status, Header: header, Body: reader, Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
}

func (st step) write(ctx context.Context, w *io.PipeWriter) {
	_, _ = io.WriteString(w, st.body)
	if st.lasts > 0 {
		select {
		case <-time.After(st.lasts):
		case <-ctx.Done():
		}
		_, _ = io.WriteString(w, st.later)
	}
	for n := 0; st.drips != nil && ctx.Err() == nil; n++ {
		_, _ = io.WriteString(w, st.drips(n))
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
		}
	}
	switch {
	case st.hang:
		<-ctx.Done()
		w.CloseWithError(ctx.Err())
	case st.cut:
		w.CloseWithError(io.ErrUnexpectedEOF)
	default:
		w.Close()
	}
}

func (s *script) done() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen) >= len(s.steps)
}

// wait is the pause of the stream before the request with this number (from 0).
func (s *script) wait(n int) time.Duration { return s.times[n].Sub(s.times[n-1]) }

// check compares what was asked with what the script expects.
func (s *script) check(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range max(len(s.seen), len(s.steps)) {
		got, want := "(nothing)", "(nothing)"
		if i < len(s.seen) {
			got = s.seen[i]
		}
		if i < len(s.steps) {
			want = s.steps[i].want
		}
		if got != want {
			t.Errorf("request %d is %q, want %q\nall: %s", i, got, want, strings.Join(s.seen, "\n     "))
			return
		}
		if want := s.steps[i].logAt; want != "" && s.places[i] != want {
			t.Errorf("at request %d (%s) the log is at %s, want %s", i, got, s.places[i], want)
		}
		if i > 0 && s.wait(i) < s.steps[i].pause {
			t.Errorf("request %d (%s) came after %s, want %s", i, got, s.wait(i), s.steps[i].pause)
		}
	}
}

// scripted is a stream that is played against a script.
type scripted struct {
	name    string
	log     *ledger                    // nil: a new one
	stream  *change.Stream             // nil: of all ConfigMaps
	options func(o *reflector.Options) // changes plain(), or is nil
	steps   []step
	act     func(t *testing.T, r *reflector.Reflector) // is called when the stream rests, or is nil
	want    string                                     // what outcome returns in the end, or "" if inspect knows
	reports string                                     // a part of each error that is reported
	inspect func(t *testing.T, s *script)              // demands more, or is nil
}

func playAll(t *testing.T, all []scripted) {
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) { play(t, c) })
	}
}

// play runs a stream against the script until the last answer is given and all is quiet.
func play(t *testing.T, c scripted) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, options := &script{steps: c.steps, log: cmp.Or(c.log, newLedger()), observer: &quietObserver{}}, plain()
		if c.options != nil {
			c.options(&options)
		}
		s.log.moved = make(chan struct{}) // the channel belongs to this bubble
		stream := cmp.Or(c.stream, change.NewStream(configMaps, "", "", ""))
		r, stop := startStream(t, &rest.Config{Host: "http://script", Transport: s, QPS: -1}, stream, options, s.log, s.observer)
		if c.act != nil {
			synctest.Wait()
			c.act(t, r)
		}
		for i := 0; !s.done() && i < 3600; i++ {
			time.Sleep(time.Second)
		}
		synctest.Wait()
		_ = stop()
		s.check(t)
		if got := s.outcome(); c.want != "" && got != c.want {
			t.Fatalf("the outcome is %q, want %q", got, c.want)
		}
		for _, err := range s.observer.errs {
			if !strings.Contains(err.Error(), c.reports) {
				t.Errorf("it reports %q, want %q", err, c.reports)
			}
		}
		if c.inspect != nil {
			c.inspect(t, s)
		}
	})
}

// outcome describes what is in the log and what a user sees.
func (s *script) outcome() string {
	text := s.log.outcome()
	for _, state := range []change.StreamState{change.StateRefused, change.StateUnsupported} {
		if s.observer.was(state) {
			text += fmt.Sprint(", ", state)
		}
	}
	return text
}

// outcome describes a log: the changes ("?" is inferred), the position, and what else it has.
func (l *ledger) outcome() string {
	text := strings.TrimSpace(says(l) + " at " + string(l.position))
	for _, c := range l.controls {
		text += ", " + string(c.Type)
		if c.Objects != nil {
			text += fmt.Sprint(" ", *c.Objects)
		}
		if g := c.Gap; g != nil {
			text += fmt.Sprintf(" %s-%s %s", g.From, g.To, map[bool]string{true: "complete", false: "incomplete"}[g.Complete])
			for i, n := range []int{g.Recovered, g.Inferred, g.Created, g.Updated, g.Deleted} {
				if n > 0 {
					text += fmt.Sprint(" ", n, []string{" recovered", " inferred", " c", " u", " d"}[i])
				}
			}
		}
	}
	if n := len(l.raws); n > 0 {
		text += fmt.Sprintf(", %d dead letters", n)
	}
	return text
}

// startOn runs a stream of all ConfigMaps until stop is called.
func startOn(t testing.TB, config *rest.Config, options reflector.Options, l *ledger, o reflector.Observer) (*reflector.Reflector, func() error) {
	return startStream(t, config, change.NewStream(configMaps, "", "", ""), options, l, o)
}

func startStream(t testing.TB, config *rest.Config, stream *change.Stream, options reflector.Options, l *ledger, o reflector.Observer) (*reflector.Reflector, func() error) {
	t.Helper()
	s := newStream(t, config, stream, options, l, o)
	l.restart()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	var once sync.Once
	stop := func() (err error) {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return s, stop
}

// newStream makes a stream that does not run yet.
func newStream(t testing.TB, config *rest.Config, stream *change.Stream, options reflector.Options, l *ledger, o reflector.Observer) *reflector.Reflector {
	t.Helper()
	client, err := discovery.Connect(config)
	mustDo(t, err)
	level := slog.LevelError + 1
	if os.Getenv("KUBECDC_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	return reflector.New(stream, client.Client(), options, l, l, o, log)
}

// plain are the options of scripted tests: no backfill, small pages, no fresh connections.
func plain() reflector.Options {
	o := reflector.DefaultOptions()
	o.FreshTries, o.PageSize = 0, 2
	return o
}

// resumed is a ledger that has some objects, at a position.
func resumed(position string, objects ...string) *ledger {
	l := newLedger()
	l.position = change.ResourceVersion(position)
	for _, o := range objects {
		f := strings.Fields(o)
		l.objects["default/"+f[0]] = [2]string{uid(f[1]), f[2]}
	}
	return l
}

const tooLarge = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 100, current: 90","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}`

func says(l *ledger) string {
	var all []string
	for _, c := range l.changes {
		text := c.Op.String() + " " + c.Name + "@" + string(c.ResourceVersion)
		if c.Inferred {
			text += "?"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// expect demands changes and a position of a log, whatever else it has.
func expect(t *testing.T, l *ledger, want string) {
	t.Helper()
	if got, _, _ := strings.Cut(l.outcome(), ", "); got != want {
		t.Errorf("the log says %q, want %q", got, want)
	}
}
