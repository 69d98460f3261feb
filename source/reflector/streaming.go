package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/source/apiclient"
	"kubecdc/source/discovery"
	"kubecdc/source/known"
)

// A streaming list (KEP-3157) is a watch that begins with an ADDED event for each object, in any order. A bookmark with the
// annotation k8s.io/initial-events-end ends the list. All objects are as of the bookmark's version. Then the watch goes on.
// Before Kubernetes 1.34 changes may come between the objects and that bookmark.
//
// Each object is compared with the known objects as it comes, as one of a page is. Only the bookmark shows how old the list is,
// and it comes last. So an object that may be older than the log ends the streaming list. The list is then read in pages, which
// show their version first. The list is also read in pages after any failure: pages go on where they failed. No deletion is
// inferred before the bookmark has come, and none if it is older than the log.
//
// A server without streaming lists refuses them, or sends no such bookmark. Then pages are read at once, and for half an hour no
// stream of the process asks for a streaming list of that resource.

// StreamingLists decides for which resources lists are read as streaming lists. The streams of a process share it.
type StreamingLists struct {
	always bool
	mu     sync.Mutex
	since  map[string]time.Time // resources for which the server had no streaming list, and when
}

// NewStreamingLists allows streaming lists of all resources, or only where they are faster and surely answered from a watch
// cache. They are faster if the server is far away. Events and aggregated resources may have no watch cache. Near a server pages
// cost it less, if objects are large.
func NewStreamingLists(all bool) *StreamingLists {
	return &StreamingLists{always: all, since: map[string]time.Time{}}
}

const (
	streamingRetry = 30 * time.Minute
	// streamSilence is how long the next object of the list, or its end, may take to come. A server that has answered has all
	// objects in memory.
	streamSilence = 10 * time.Second
)

func (s *StreamingLists) refused(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since[resource] = time.Now()
}

func (s *StreamingLists) offered(resource string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, refused := s.since[resource]
	return !refused || time.Since(since) > streamingRetry
}

// streams reports whether to read the list as a streaming list. After an interruption, or a restore of etcd, a list has objects
// that are older than the log's newest. Only pages show what they are.
func (l *listing) streams(ctx context.Context) bool {
	s := l.options.Streaming
	if s == nil || l.rewinds || l.ahead != "" || !s.offered(l.stream.Resource.ID()) {
		return false
	}
	if s.always || leased(l.stream.Resource) || !l.client.FarAway() {
		return s.always
	}
	aggregated, err := discovery.Aggregated(ctx, l.client, l.stream.Resource)
	return err == nil && !aggregated
}

var (
	errNoStream = errors.New("the server does not offer a streaming list")
	errSuspect  = errors.New("an object may be older than the log")
)

// streamed reads the list as a streaming list, and returns the watch that goes on.
func (l *listing) streamed(ctx context.Context) (*apiclient.Watch, error) {
	seconds := watchSeconds(Options{WatchTimeout: l.options.WatchTimeout}, true, rand.Float64())
	l.streamEnds = time.Now().Add(time.Duration(seconds) * time.Second)
	w, err := l.client.Watch(ctx, l.stream, l.options.MetadataOnly, "", seconds)
	if err == nil {
		err = l.readInitial(ctx, w)
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// readInitial reads up to the bookmark that ends the list.
func (l *listing) readInitial(ctx context.Context, w *apiclient.Watch) error {
	left, extends := streamSilence, l.extends()
	silent := time.AfterFunc(left, w.Close)
	for {
		began := time.Now()
		silent.Reset(left)
		e, err := w.Next()
		if !silent.Stop() {
			return fmt.Errorf("%w: neither an object nor the end of the list came for %s", errNoStream, streamSilence)
		}
		left -= time.Since(began)
		if e.Type == "ADDED" && extends(ctx, e.Object.Version) {
			left = streamSilence
		}
		switch {
		case errors.Is(err, io.EOF) && !time.Now().Before(l.streamEnds):
			return fmt.Errorf("%w: the watch ended without an end of the list", errNoStream)
		case errors.Is(err, io.EOF):
			return fmt.Errorf("a streaming list ended before it was complete: %w", io.ErrUnexpectedEOF)
		case err != nil:
			return err
		}
		if done, err := l.initial(ctx, &e); done || err != nil {
			return err
		}
	}
}

// extends returns a function that reports whether an object shows that the list goes on. After streamSilence it may have been
// created since the list began: a consistent read shows a version that the list's objects don't exceed.
func (l *listing) extends() func(ctx context.Context, version change.ResourceVersion) bool {
	newest, ask := change.ResourceVersion(""), time.Now().Add(streamSilence)
	return func(ctx context.Context, version change.ResourceVersion) bool {
		if newest == "" && time.Now().After(ask) {
			newest, _ = l.client.First(ctx, l.stream) // after an error it is asked for again
			ask = time.Now().Add(streamSilence)
		}
		return newest == "" || version.Compare(newest) <= 0
	}
}

// initial takes one event of a streaming list. done is true at the bookmark that ends the list.
func (l *listing) initial(ctx context.Context, e *apiclient.Event) (done bool, err error) {
	if fault.Is[*apiclient.NotEventError](e.Err) {
		return false, e.Err
	}
	switch e.Type {
	case "ADDED", "MODIFIED", "DELETED":
		return false, l.initialObject(ctx, e)
	case "ERROR":
		return false, e.Status()
	case "BOOKMARK":
		version, end, err := e.Bookmark()
		if err == nil && !end {
			err = fmt.Errorf("%w: a bookmark came that does not end it", errNoStream)
		}
		if err == nil {
			err = l.checkFresh(version)
		}
		if err != nil {
			return false, err
		}
		l.version = version
		l.resetBackoff()
		l.report(l.objects)
		return true, nil
	}
	return false, nil
}

func (l *listing) initialObject(ctx context.Context, e *apiclient.Event) error {
	o, unreadable := &e.Object, e.Err
	if unreadable == nil {
		unreadable = o.Check()
	}
	switch {
	case unreadable != nil && e.Type == "DELETED":
		return fmt.Errorf("%w: a deletion can't be read", errSuspect)
	case unreadable != nil:
		l.objects++
		o.Raw = e.Line
		return l.item(ctx, o, unreadable)
	}
	d := l.known.Compare(o.Key(), o.UID, o.Version)
	switch {
	case d == known.Older, d == known.Predecessor, d != known.Same && o.Version.Compare(l.floor) <= 0:
		return fmt.Errorf("%w: %q at resourceVersion %s", errSuspect, o.Key(), o.Version)
	case e.Type == "DELETED":
		// Emit it at the end. Until then, an object in the log shows that a list was interrupted.
		if d == known.Newer || d == known.Same {
			l.endings.add(o)
			l.known.Unmark(o.Key())
			l.objects--
		}
		return nil
	case l.endings.has(o):
		return nil
	case d == known.Same:
		l.known.Mark(o.Key())
		o.Slab.Release()
	default:
		if err := l.object(ctx, o); err != nil {
			return err
		}
	}
	if e.Type == "ADDED" {
		l.objects++
	}
	if l.objects%500 == 0 {
		l.report(max(l.objects, l.known.Len()))
	}
	return nil
}

// fallsBack decides what follows a streaming list that has failed: true says that pages are read now. Otherwise they are read
// after a pause.
func (l *listing) fallsBack(err error) bool {
	if err == nil || errors.Is(err, errStale) {
		return false
	}
	l.paged = true
	l.startPass()
	refused := errors.Is(err, errNoStream) || apiclient.IsInvalid(err) || apiclient.IsRefused(err) &&
		!apierrors.IsUnauthorized(err)
	if refused {
		l.options.Streaming.refused(l.stream.Resource.ID())
	}
	if !refused && !errors.Is(err, errSuspect) && !apiclient.IsGone(err) {
		return false
	}
	l.log.Info("the list is read in pages, not streamed", "reason", apiclient.Reason(err))
	return true
}

// goOn goes on with the watch of a streaming list as the stream's watch. It opens a new watch if the timeout is too long: for
// Events, or if watermarks are due more often than bookmarks. Custom resources need a new watch, since their schema must be known
// before it. A list in gzip needs a new watch, too, since an ordinary watch is not compressed (apiclient).
func (l *listing) goOn(ctx context.Context, next state, open *apiclient.Watch) (state, error) {
	w, r := next.(*watching), l.stream.Resource
	often := l.options.Watermark > 0 && l.options.Watermark < time.Minute
	if often || open.Compressed() || leased(r) || mayHaveCRD(r) && !l.lately.builtIn {
		return w, nil
	}
	l.Reflector.state = w
	l.observer.StreamState(w.ID(), w.name(), nil)
	return w.follow(ctx, open, watchRun{started: time.Now(), timeout: time.Until(l.streamEnds)})
}
