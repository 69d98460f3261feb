package reflector_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/redact"
	"kubecdc/source/discovery"
	"kubecdc/source/reflector"
)

// An aggregated API server sends an object that fills the memory. It is reported by name and skipped, in a list and in a watch. The
// stream goes on. The object exists, so it is not taken for deleted. If its name can't be read, no object is taken for deleted.
func TestWhatIsTooLargeIsPassedBy(t *testing.T) {
	if testing.Short() {
		t.Skip("this test reads a gigabyte: make test runs it")
	}
	for _, redacted := range []bool{false, true} {
		server := httptest.NewServer(largeObjects())
		defer server.Close()
		out := bufio.NewScanner(bytes.NewReader(runChild(t, server.URL, "KUBECDC_TEST_LARGE="+fmt.Sprint(redacted))))
		var got []string
		var peak int64
		for out.Scan() {
			if n, _ := fmt.Sscanf(out.Text(), "peak %d", &peak); n == 0 {
				got = append(got, out.Text())
			}
		}
		want := []string{"r a 10", "r b 11", "r c 12", // listed
			`too large: object "n/b" at resourceVersion "21"`, "c d 22", "d c 23", // watched
			`too large: object "n/b" at resourceVersion "21"`, "d d 22", // compared: d is gone, b is not
			`too large: an object`, "c e 60"} // compared, and watched
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("redacted %t: got\n%s\nwant\n%s", redacted, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		t.Logf("peak RSS %.1f MB", float64(peak)/1e6)
		if peak == 0 || peak > 150e6 {
			t.Errorf("peak RSS %d bytes, want at most 150 MB", peak)
		}
	}
}

// named prints what it is sent, until the object e comes.
type named struct {
	counted
}

func (n *named) Send(_ context.Context, item change.Item) error {
	switch c := item.Change; {
	case item.Raw != nil:
		what, _, _ := strings.Cut(item.Raw.Reason, " has ")
		if len(item.Raw.Bytes) > 64<<10 {
			what += fmt.Sprintf(" with %d bytes", len(item.Raw.Bytes))
		}
		fmt.Println("too large:", what)
	case c != nil:
		fmt.Println(c.Op.String(), c.Name, c.ResourceVersion)
		if c.Name == "e" {
			n.cancel()
		}
	}
	return nil
}

func readLarge(url, redacted string) {
	debug.SetGCPercent(30) // the exporter's
	ctx, cancel := context.WithCancel(context.Background())
	client, err := discovery.Connect(&rest.Config{Host: url, QPS: -1})
	if err != nil {
		panic(err)
	}
	o := reflector.DefaultOptions()
	o.FreshTries = 0
	if redacted == "true" {
		o.Redactor = redactor(redact.Hash)
	}
	n := &named{counted{cancel: cancel}}
	_ = reflector.New(change.NewStream(configMaps, "", "", ""), client.Client(), o, n, n, &quietObserver{}, slog.New(slog.DiscardHandler)).Run(ctx)
	fmt.Println("peak", peakRSS())
}

// largeObjects serves three lists and three watches with objects of 200 MB.
func largeObjects() http.Handler {
	object := func(name string, version int) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"n","uid":"uid-%s","resourceVersion":"%d"},"data":{}}`, name, name, version)
	}
	filler := strings.Repeat(`\"{[x`, 200_000)
	large := func(w io.Writer, before, after string) {
		io.WriteString(w, strings.Replace(before, `"data":{}}`, `"data":{"k":"`, 1))
		for range 200 {
			io.WriteString(w, filler)
		}
		io.WriteString(w, `"`+after)
	}
	list := func(w io.Writer, version int, items ...string) {
		fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%s`, version, strings.Join(items, ","))
	}
	event := func(kind, object string) string { return `{"type":"` + kind + `","object":` + object }
	lists, watches := 0, 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			switch lists++; lists {
			case 1:
				list(w, 20, object("a", 10), object("b", 11), object("c", 12))
			case 2:
				list(w, 40, object("a", 10)+",")
				large(w, object("b", 21), "}}")
			default:
				list(w, 50, "")
				large(w, `{"aaa":"`, `,"metadata":{"name":"a"}}`)
			}
			io.WriteString(w, "]}")
			return
		}
		switch watches++; watches {
		case 1:
			large(w, event("MODIFIED", object("b", 21)), "}}}\n")
			io.WriteString(w, event("ADDED", object("d", 22))+"}\n")
			large(w, event("DELETED", object("c", 23)), "}}}\n")
			io.WriteString(w, errorEvent(gone("")))
		case 2:
			io.WriteString(w, errorEvent(gone("")))
		default:
			io.WriteString(w, event("ADDED", object("e", 60))+"}\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	})
}
