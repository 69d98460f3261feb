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
	"kubecdc/internal/web"
)

// Handler serves the page (/) and its JSON (/status.json). now returns the Status. An open page requests itself every other
// second, and gets a new version only after a change. Ages are not part of the page, since the browser adds them.
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
	status *Status // shared by all requests
	made   time.Time
	html   []byte // the page of the status; nil: not written yet
	tag    string
}

// latest returns a status that is at most madeFor old.
func (p *pages) latest() *Status {
	if p.status == nil || time.Since(p.made) > madeFor {
		p.status, p.made, p.html = p.now(), time.Now(), nil
	}
	return p.status
}

const (
	madeFor    = time.Second // half of the refresh interval of an open page
	mostAtOnce = 50          // answers at a time
)

// page answers with the page, or with status 304 if the browser has the same version.
func (p *pages) page(w http.ResponseWriter, r *http.Request) {
	web.PageHeader(w.Header(), css, script)
	p.answer(w, func() ([]byte, error) {
		if s := p.latest(); p.html == nil {
			var b bytes.Buffer
			if err := s.writePage(&b); err != nil {
				return nil, err
			}
			p.html, p.tag = b.Bytes(), `"`+web.Hash(b.String())+`"`
		}
		w.Header().Set("ETag", p.tag)
		if r.Header.Get("If-None-Match") == p.tag {
			w.WriteHeader(http.StatusNotModified)
			return nil, nil
		}
		return p.html, nil
	})
}

// answer makes one answer after another, and holds at most mostAtOnce of them while they are read. With thousands of streams an
// answer takes megabytes, and ten times as much while it is made.
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
