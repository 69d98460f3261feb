package reflector_test

import (
	"context"
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
}

type step struct {
	want   string // as describe has the request
	status int    // 0: 200
	after  string // Retry-After
	body   string
	lasts  time.Duration      // the connection ends as it should, after so long
	later  string             // comes then
	drips  func(n int) string // comes every five seconds, from n=0
	hang   bool               // the connection stays open, without a byte
	cut    bool               // the connection breaks after the body
	err    error              // there is no answer at all
	doing  func()
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
	s.mu.Unlock()
	if st.doing != nil {
		st.doing()
	}
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
	}
}

// play runs a stream against the script until the last answer is given and all is quiet, and then calls inspect.
func play(t *testing.T, l *ledger, options reflector.Options, steps []step, inspect func(t *testing.T, s *script)) {
	t.Helper()
	playObserved(t, l, options, &quietObserver{}, steps, inspect)
}

// playEvents is for a stream of Events.
func playEvents(t *testing.T, l *ledger, steps []step, inspect func(t *testing.T, s *script)) {
	t.Helper()
	playStream(t, l, change.NewStream(eventsResource, "", "", ""), plain(), &quietObserver{}, steps, inspect)
}

func playObserved(t *testing.T, l *ledger, options reflector.Options, o reflector.Observer, steps []step, inspect func(t *testing.T, s *script)) {
	t.Helper()
	playStream(t, l, change.NewStream(configMaps, "", "", ""), options, o, steps, inspect)
}

func playStream(t *testing.T, l *ledger, stream *change.Stream, options reflector.Options, o reflector.Observer, steps []step, inspect func(t *testing.T, s *script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &script{steps: steps}
		l.moved = make(chan struct{}) // the channel belongs to this bubble
		_, stop := startStream(t, &rest.Config{Host: "http://script", Transport: s, QPS: -1}, stream, options, l, o)
		for i := 0; !s.done() && i < 3600; i++ {
			time.Sleep(time.Second)
		}
		synctest.Wait()
		_ = stop()
		s.check(t)
		if inspect != nil {
			inspect(t, s)
		}
	})
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

func expect(t *testing.T, l *ledger, changes string, position change.ResourceVersion) {
	t.Helper()
	if got := says(l); got != changes {
		t.Errorf("the log says %q, want %q", got, changes)
	}
	if l.position != position {
		t.Errorf("the position is %s, want %s", l.position, position)
	}
}
