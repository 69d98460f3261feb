package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"kubecdc/internal/plain"
)

// Handler serves the page (/) and its JSON (/status.json). now makes the Status. An open page asks for itself again every other second,
// and gets it if something has happened: it has no age of anything, which the browser adds.
func Handler(now func() *Status) http.Handler {
	p := &pages{now: now}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.page)
	mux.HandleFunc("GET /status.json", p.json)
	return mux
}

type pages struct {
	now     func() *Status
	loading atomic.Int32

	making sync.Mutex
	status *Status // which all requests share
	made   time.Time
	html   []byte // of the status; nil: not written yet
	tag    string
}

// latest returns the status as it was at most madeFor ago.
func (p *pages) latest() *Status {
	if p.status == nil || time.Since(p.made) > madeFor {
		p.status, p.made, p.html = p.now(), time.Now(), nil
	}
	return p.status
}

const (
	madeFor    = time.Second // half of what an open page waits
	mostAtOnce = 50          // requests that are answered at a time
)

// page answers with the page; with the status 304 alone if the browser has it.
func (p *pages) page(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", contentPolicy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	p.answer(w, func() ([]byte, error) {
		if s := p.latest(); p.html == nil {
			var b bytes.Buffer
			if err := s.writePage(&b); err != nil {
				return nil, err
			}
			p.html, p.tag = b.Bytes(), `"`+hash(b.String())+`"`
		}
		header.Set("ETag", p.tag)
		if r.Header.Get("If-None-Match") == p.tag {
			w.WriteHeader(http.StatusNotModified)
			return nil, nil
		}
		return p.html, nil
	})
}

// answer makes one answer after another, and holds no more of them than mostAtOnce: of thousands of streams each takes megabytes, and ten
// times as much while it is made, however slowly it is read.
func (p *pages) answer(w http.ResponseWriter, write func() ([]byte, error)) {
	w.Header().Set("Cache-Control", "no-store")
	defer p.loading.Add(-1)
	if p.loading.Add(1) > mostAtOnce {
		http.Error(w, fmt.Sprintf("%d requests are being answered already", mostAtOnce), http.StatusServiceUnavailable)
		return
	}
	p.making.Lock()
	text, err := write()
	p.making.Unlock()
	if err != nil {
		http.Error(w, "the status can't be written: "+err.Error(), http.StatusInternalServerError)
		return
	}
	if len(text) > 0 {
		_, _ = w.Write(text)
	}
}

func (p *pages) json(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	p.answer(w, func() ([]byte, error) {
		var b bytes.Buffer
		e := json.NewEncoder(plain.JSONWriter(&b))
		e.SetIndent("", "  ")
		err := e.Encode(p.latest())
		return b.Bytes(), err
	})
}
