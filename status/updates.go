package status

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// updates makes what open pages are sent. All of them share it: of thousands of streams it is megabytes, and takes a while to make.
type updates struct {
	now func(context.Context) *Status

	mu   sync.Mutex
	last *update
}

// update is the page of one moment.
type update struct {
	number int
	made   time.Time
	about  about
	parts  map[string]part // by id
}

// about is what is sent whether it differs from before or not.
type about struct {
	Time  time.Time `json:"time"`
	AsOf  string    `json:"asOf"`
	Title string    `json:"title"`
	Icon  string    `json:"icon"`
}

// part is HTML that stands in an element of the page.
type part struct {
	html    string
	encoded []byte // as a member of a JSON object
	changed int    // the number of the update since which it is so; 0: always
}

// get returns an update that is at most half an interval old.
func (u *updates) get(ctx context.Context) (*update, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.last != nil && time.Since(u.last.made) < updateInterval/2 {
		return u.last, nil
	}
	s := u.now(ctx)
	texts, err := fragments(s)
	if err != nil {
		return nil, err
	}
	before := u.last
	if before == nil {
		before = &update{}
	}
	next := &update{number: before.number + 1, made: time.Now(), parts: map[string]part{},
		about: about{s.Time, stamp(s.Time), title(s), icon(s.Healthy)}}
	for id, html := range texts {
		if next.parts[id] = before.parts[id]; html == before.parts[id].html {
			continue
		}
		text, err := json.Marshal(html)
		if err != nil {
			return nil, err
		}
		next.parts[id] = part{html, fmt.Appendf(nil, "%q:%s", id, text), next.number}
	}
	u.last = next
	return next, nil
}

// write writes a server-sent event, with the parts that differ from the update of the given number.
func (u *update) write(w io.Writer, after int) error {
	head, err := json.Marshal(u.about)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "event: status\ndata: %s,\"parts\":{", head[:len(head)-1]); err != nil {
		return err
	}
	separator := ""
	for _, p := range u.parts {
		if p.changed <= after {
			continue
		}
		if _, err := io.WriteString(w, separator); err != nil {
			return err
		}
		if _, err := w.Write(p.encoded); err != nil {
			return err
		}
		separator = ","
	}
	_, err = io.WriteString(w, "}}\n\n")
	return err
}
