package reflector_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"weak"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/discovery"
	"kubecdc/source/reflector"
	"kubecdc/test/servers"
)

// A process reads 100,000 objects of 4 KB, first as a snapshot and then again to compare after a 410. It takes less than 100 MB. At the
// end each further object takes at most 130 bytes of that, on a machine of any load.
func TestMemoryOfLargeCollections(t *testing.T) {
	if testing.Short() {
		t.Skip("this test reads gigabytes: make test runs it")
	}
	_, half := memory(t, 50_000)
	peak, all := memory(t, 100_000)
	for tries := 1; peak > 100e6 && tries < 3; tries++ { // the garbage collector of a process that gets no processor is late
		peak, all = memory(t, 100_000)
	}
	each := float64(all-half) / 50_000
	t.Logf("peak RSS %.1f MB at 100,000 objects, of which %.1f MB are in use; %.0f bytes for each further one", float64(peak)/1e6, float64(all)/1e6, each)
	if peak > 100e6 || each > 130 {
		t.Errorf("peak RSS %d at 100,000 objects, %.0f bytes for each further one; want at most 100 MB and 130 bytes", peak, each)
	}
}

// quiet is an output that keeps no object, only whether the last one is still held by others.
type quiet struct {
	counted
	last weak.Pointer[byte]
}

func (q *quiet) Send(_ context.Context, item change.Item) error {
	if c := item.Change; c != nil && c.After != nil {
		q.last = weak.Make(&c.After[0])
	}
	return nil
}

// Most streams of a cluster are quiet: after a bookmark such a stream holds nothing of the object before it.
func TestAQuietStreamHoldsNoObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := strings.Replace(modified("a a 101"), "v101", strings.Repeat("large ", 20_000), 1)
		s := &script{steps: []step{
			{want: "list limit=2", body: listed("100", "", "a a 10")},
			{want: "watch rv=100", body: large + bookmark("150"), hang: true},
		}}
		client := must[*discovery.Server](t)(discovery.Connect(&rest.Config{Host: "http://script", Transport: s, QPS: -1}))
		ctx, cancel := context.WithCancel(t.Context())
		q := &quiet{}
		stream := reflector.New(change.NewStream(configMaps, "", "", ""), client.Client(), plain(), q, q, &quietObserver{},
			slog.New(slog.DiscardHandler))
		done := make(chan error)
		go func() { done <- stream.Run(ctx) }()
		synctest.Wait()
		runtime.GC()
		if q.last == (weak.Pointer[byte]{}) || q.last.Value() != nil {
			t.Error("the stream holds its last object")
		}
		runtime.KeepAlive(stream)
		cancel()
		<-done
		s.check(t)
	})
}

// memory is the highest RSS of a process of its own, and what it holds when it has compared a list, in bytes.
func memory(t *testing.T, objects int) (peak, held int64) {
	t.Helper()
	server := httptest.NewServer(bigCollection(objects))
	defer server.Close()
	out := runChild(t, server.URL, "KUBECDC_TEST_LARGE=")
	if _, err := fmt.Sscan(string(out), &peak, &held); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return peak, held
}

// runChild runs a process of its own that reads from a server, and returns what it printed.
func runChild(t *testing.T, url, setting string) []byte {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), "KUBECDC_TEST_CHILD="+url, setting, "GOGC=100") // as users have it
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return out
}

func TestMain(m *testing.M) {
	if url := os.Getenv("KUBECDC_TEST_CHILD"); url != "" {
		if redacted := os.Getenv("KUBECDC_TEST_LARGE"); redacted != "" {
			readLarge(url, redacted)
			return
		}
		readTwice(url)
		return
	}
	servers.Main(judged{m})
}

// counted forgets what it is sent. It ends the stream when the list was compared once more.
type counted struct {
	cancel context.CancelFunc
	held   uint64 // on the heap, at the end
}

func (c *counted) Send(_ context.Context, item change.Item) error {
	if item.Control != nil && item.Control.Type == change.ControlGap {
		var now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&now)
		c.held = now.HeapAlloc
		c.cancel()
	}
	return nil
}
func (c *counted) Position(context.Context, change.StreamID) (p change.Position, ok bool, err error) {
	return
}
func (c *counted) Bodies(context.Context, change.StreamID, []string, func(key string, body []byte) error) error {
	return nil
}
func (c *counted) Objects(context.Context, change.StreamID, func(key, uid string, version change.ResourceVersion) error) error {
	return nil
}

func readTwice(url string) {
	ctx, cancel := context.WithCancel(context.Background())
	client, err := discovery.Connect(&rest.Config{Host: url, QPS: -1})
	if err != nil {
		panic(err)
	}
	o := reflector.DefaultOptions()
	o.FreshTries = 0
	c := &counted{cancel: cancel}
	_ = reflector.New(change.NewStream(configMaps, "", "", ""), client.Client(), o, c, c, &quietObserver{}, slog.New(slog.DiscardHandler)).Run(ctx)
	fmt.Println(peakRSS(), c.held)
}

// peakRSS is the highest RSS of this process, in bytes.
func peakRSS() (bytes int64) {
	status, _ := os.Open("/proc/self/status")
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if f := strings.Fields(lines.Text()); f[0] == "VmHWM:" {
			bytes, _ = strconv.ParseInt(f[1], 10, 64)
		}
	}
	return bytes * 1024
}

// bigCollection serves a number of objects of 4 KB. A watch gets 410. On the second list every tenth object has changed.
func bigCollection(n int) http.Handler {
	filler := strings.Repeat("x", 3800)
	lists := 0
	object := func(w *bufio.Writer, i int) {
		version := 1000 + i
		if lists > 1 && i%10 == 0 {
			version += n
		}
		fmt.Fprintf(w, `{"metadata":{"name":"object-%d-%x","namespace":"namespace-%d","uid":"%08x-0000-4000-8000-%012x","resourceVersion":"%d"},"data":{"k":"%s"}}`,
			i, i*7919, i%50, i, i, version, filler)
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		q, w := r.URL.Query(), bufio.NewWriter(rw)
		defer w.Flush()
		switch {
		case q.Get("watch") != "":
			w.WriteString(errorEvent(gone("")))
		default:
			limit, _ := strconv.Atoi(q.Get("limit"))
			first, _ := strconv.Atoi(q.Get("continue"))
			if first == 0 {
				lists++
			}
			next := ""
			if first+limit < n {
				next = strconv.Itoa(first + limit)
			}
			fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"%d","continue":%q},"items":[`, 10*n, next)
			for i := first; i < min(first+limit, n); i++ {
				if i > first {
					w.WriteString(",")
				}
				object(w, i)
			}
			w.WriteString("]}")
		}
	})
}
