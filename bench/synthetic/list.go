package synthetic

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// list answers a page, of the newest state or of a version since the oldest, or the one object that a field selector names.
func (c *collection) list(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	version := c.version
	if q.Get("resourceVersionMatch") == "Exact" {
		version, _ = strconv.ParseUint(q.Get("resourceVersion"), 10, 64)
	}
	token := q.Get("continue")
	if token != "" {
		_, _ = fmt.Sscanf(token, "%d.%d", &version, new(int))
	}
	if version < c.oldest {
		w.WriteHeader(http.StatusGone)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Expired","code":410}`))
		return
	}
	p := c.pastAt(version)
	from, to := p.in(r.PathValue("namespace"))
	if name, ok := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name="); ok {
		id := idOf(name)
		from, to = max(from, id), min(to, id+1)
	}
	if token != "" {
		_, _ = fmt.Sscanf(token, "%d.%d", new(int), &from)
	}
	next, end := "", to
	if limit, err := strconv.Atoi(q.Get("limit")); err == nil && limit > 0 && from+limit < to {
		end = from + limit
		next = fmt.Sprintf(`,"continue":"%d.%d","remainingItemCount":%d`, version, end, to-end)
	}
	fmt.Fprintf(w, `{"kind":"%sList","apiVersion":"v1","metadata":{"resourceVersion":"%d"%s},"items":[`, c.kind, version, next)
	p.items(w, from, end, strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList"))
	_, _ = w.Write([]byte("]}\n"))
}

// past is a collection as it was at a version.
type past struct {
	*collection
	first, next int
	versions    map[int]uint64 // versions of the objects that have changed since
}

func (c *collection) pastAt(version uint64) past {
	p := past{c, c.first, c.next, map[int]uint64{}}
	for i := len(c.missed) - 1; i >= 0 && c.missed[i].version > version; i-- {
		m := &c.missed[i]
		p.versions[m.id] = m.before
		switch m.kind {
		case "ADDED":
			p.next--
		case "DELETED":
			p.first--
		}
	}
	return p
}

// in returns the objects of a namespace, or of all if it is empty.
func (p past) in(namespace string) (from, to int) {
	digits, ok := strings.CutPrefix(namespace, "team-")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil {
		return p.first, p.next
	}
	return max(p.first, n*namespaceSize), min(p.next, (n+1)*namespaceSize)
}

func (p past) items(w http.ResponseWriter, from, to int, metadataOnly bool) {
	buffer := make([]byte, 0, 1<<18)
	for id := from; id < to; id++ {
		if id > from {
			buffer = append(buffer, ',')
		}
		buffer = p.appendItem(buffer, id, metadataOnly)
		if len(buffer) > 1<<17 || id == to-1 {
			if _, err := w.Write(buffer); err != nil {
				return
			}
			buffer = buffer[:0]
		}
	}
}

func (p past) appendItem(dst []byte, id int, metadataOnly bool) []byte {
	version, changed := p.versions[id]
	if !changed {
		version = p.collection.versions[id]
	}
	start := len(dst)
	dst = p.appendObject(dst, id, version)
	if metadataOnly {
		dst = append(dst[:start+bytes.Index(dst[start:], []byte(`,"spec":`))], '}')
	}
	return dst
}
