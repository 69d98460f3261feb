package status

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"kubecdc/internal/plain"
)

// Handler serves the page (/), its JSON (/status.json), and the updates of open pages (/status/events). Now makes the Status; each
// open page calls it every other second. Updates end when closing is closed.
func Handler(now func(context.Context) *Status, closing <-chan struct{}) http.Handler {
	p := &pages{now: now, updates: updates{now: now}, closing: closing}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.page)
	mux.HandleFunc("GET /status.json", p.json)
	mux.HandleFunc("GET /status/events", p.events)
	return mux
}

type pages struct {
	now     func(context.Context) *Status
	updates updates
	closing <-chan struct{}
	open    atomic.Int32
	loading atomic.Int32
	making  sync.Mutex
}

func (p *pages) page(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", contentPolicy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	q := r.URL.Query()
	p.answer(w, func(b *bytes.Buffer) error {
		return writePage(b, p.now(r.Context()), filter{text: q.Get("q"), wrong: q.Get("wrong") != ""})
	})
}

// answer makes one answer after another, and holds no more of them than pages may be open: of thousands of streams each takes
// megabytes, and ten times as much while it is made, however slowly it is read.
func (p *pages) answer(w http.ResponseWriter, write func(*bytes.Buffer) error) {
	defer p.loading.Add(-1)
	if p.loading.Add(1) > mostOpen {
		http.Error(w, fmt.Sprintf("%d requests are being answered already", mostOpen), http.StatusServiceUnavailable)
		return
	}
	var b bytes.Buffer
	p.making.Lock()
	err := write(&b)
	p.making.Unlock()
	if err != nil {
		http.Error(w, "the status can't be written: "+err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(b.Bytes())
}

func (p *pages) json(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	p.answer(w, func(b *bytes.Buffer) error {
		e := json.NewEncoder(plain.JSONWriter(b))
		e.SetIndent("", "  ")
		return e.Encode(p.now(r.Context()))
	})
}

const (
	updateInterval = 2 * time.Second
	mostOpen       = 50               // pages that are kept up to date
	slowest        = 10 * time.Second // for a browser to take an update
	longest        = 10 * time.Minute // then the browser comes again, with rights that are checked anew
)

// events sends updates as server-sent events until the browser, or the process, ends them.
func (p *pages) events(w http.ResponseWriter, r *http.Request) {
	if p.open.Add(1) > mostOpen {
		p.open.Add(-1)
		http.Error(w, fmt.Sprintf("%d pages are open already: close some", mostOpen), http.StatusServiceUnavailable)
		return
	}
	defer p.open.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // nothing more is read, and the request has no end
	tick := time.NewTicker(updateInterval)
	defer tick.Stop()
	end := time.After(longest)
	for sent := 0; ; {
		u, err := p.updates.get(r.Context())
		if err != nil {
			return
		}
		_ = control.SetWriteDeadline(time.Now().Add(slowest)) // not every writer can
		if u.write(w, sent) != nil || control.Flush() != nil {
			return
		}
		sent = u.number
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-p.closing:
			return
		case <-end:
			return
		}
	}
}
