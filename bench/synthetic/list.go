package synthetic

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// list answers a page of the newest state, or the one object that a field selector names.
func (c *collection) list(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	if name, ok := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name="); ok {
		c.exact(w, idOf(name), q.Get("resourceVersion"))
		return
	}
	from := c.first
	if token := q.Get("continue"); token != "" {
		from, _ = strconv.Atoi(token)
	}
	to := c.next
	if limit, err := strconv.Atoi(q.Get("limit")); err == nil && limit > 0 {
		to = min(to, from+limit)
	}
	next := ""
	if to < c.next {
		next = fmt.Sprintf(`,"continue":"%d","remainingItemCount":%d`, to, c.next-to)
	}
	fmt.Fprintf(w, `{"kind":"%sList","apiVersion":"v1","metadata":{"resourceVersion":"%d"%s},"items":[`, c.kind, c.version, next)
	c.items(w, from, to)
	_, _ = w.Write([]byte("]}\n"))
}

func (c *collection) items(w http.ResponseWriter, from, to int) {
	buffer := make([]byte, 0, 1<<18)
	for id := from; id < to; id++ {
		if id > from {
			buffer = append(buffer, ',')
		}
		buffer = append(buffer, c.bodies[id]...)
		if len(buffer) > 1<<17 || id == to-1 {
			if _, err := w.Write(buffer); err != nil {
				return
			}
			buffer = buffer[:0]
		}
	}
}

// exact answers for one object: only its newest state is known.
func (c *collection) exact(w http.ResponseWriter, id int, version string) {
	fmt.Fprintf(w, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":%q},"items":[`, version)
	if id >= c.first && id < c.next {
		_, _ = w.Write(c.bodies[id])
	}
	_, _ = w.Write([]byte("]}\n"))
}
