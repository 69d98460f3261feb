package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"kubecdc/change"
	"kubecdc/internal/web"
	"kubecdc/query"
)

// listing is the objects of a list. Its answer begins with its warnings, so all objects are read before. Objects that do not fit
// in the memory are read again for the answer. A list with a limit ends before them instead.
type listing struct {
	view      *view
	resource  *served
	matches   func(*query.Object) bool // or nil for all
	hashes    *hashes
	memory    *memory
	size      int64           // the objects have so many bytes
	objects   []*query.Object // that are in memory
	rest      *query.Within   // selects the others, or nil if there are none
	continued string          // the continue token, or empty for the last page
	left      int64           // how many objects follow, or 0 if they were not counted
	missing   []string        // reasons why it may be incomplete
	hidden    []string        // hashes that no client can read
}

// objectsAtOnce is how many objects are read at a time, unless they are large.
const objectsAtOnce = 1000

// read reads the objects of a request. The caller gives their memory back.
func (s *Server) read(ctx context.Context, q *request, resource *served, v *view) (*listing, error) {
	l := &listing{view: v, resource: resource, hashes: s.hashesOf(ctx, q, resource)}
	var err error
	if l.matches, err = q.matcher(resource); err != nil {
		return nil, err
	}
	part := query.Within{Namespace: q.namespace, Name: q.only()}
	if q.Continue != "" {
		t, err := parseToken(q.Continue)
		if err != nil {
			return nil, err
		}
		part.After, l.left = t.After, t.Left
	}
	if l.memory, err = s.views.take(ctx, ofList); err != nil {
		return nil, err
	}
	if err = l.readAll(ctx, s.views, part, int(q.Limit)); err != nil {
		l.memory.shrink(0)
		return nil, err
	}
	return l, nil
}

func (l *listing) readAll(ctx context.Context, all *views, part query.Within, limit int) error {
	n, last, isFirst := objectsAtOnce, part, part.After == ""
	if limit > 0 && limit < n && l.matches == nil {
		n = limit + 1
	}
	for {
		found, err := l.page(ctx, all, part, n)
		if err != nil {
			return err
		}
		for _, m := range found.Missing {
			if !slices.Contains(l.missing, m) {
				l.missing = append(l.missing, m)
			}
		}
		for _, o := range found.Objects {
			switch {
			case limit > 0 && (len(l.objects) == limit || !l.keep(o)):
				return l.end(ctx, all, last, isFirst)
			case limit > 0:
			case l.rest == nil && !l.keep(o):
				l.rest = new(last)
			}
			last.After = change.ObjectKey(o.Namespace, o.Name)
		}
		if part.After = found.Next; part.After == "" {
			return nil
		}
	}
}

// end ends a page. It counts what follows the first one, and later pages count down. More objects than are read at a time are not
// counted, since the count is only a help for clients.
func (l *listing) end(ctx context.Context, all *views, last query.Within, isFirst bool) error {
	if l.left -= int64(len(l.objects)); isFirst && l.matches == nil {
		rest := last
		rest.NoBodies = true
		found, err := all.page(ctx, l.view, rest, objectsAtOnce)
		if err != nil {
			return err
		}
		if l.left = int64(len(found.Objects)); found.Next != "" {
			l.left = 0
		}
	}
	l.left = max(0, l.left)
	l.continued = token{l.view.viewID, last.After, l.left}.String()
	return nil
}

// page reads a page of the objects that the request selects.
func (l *listing) page(ctx context.Context, all *views, part query.Within, n int) (found *query.Page, err error) {
	if found, err = all.page(ctx, l.view, part, n); err != nil {
		return nil, err
	}
	for _, o := range found.Objects {
		l.resource.rename(o)
	}
	found.Objects = slices.DeleteFunc(found.Objects, func(o *query.Object) bool { return l.matches != nil && !l.matches(o) })
	l.hidden, err = l.hashes.fit(found.Objects...)
	return found, err
}

// page reads a page of a view.
func (all *views) page(ctx context.Context, v *view, part query.Within, n int) (found *query.Page, err error) {
	err = all.work(ctx, func() (err error) {
		found, err = v.pages.Page(ctx, part, n)
		return unlessRetained(err)
	})
	return found, err
}

// work runs do, which takes CPU and memory, once the user's share allows it.
func (all *views) work(ctx context.Context, do func() error) error {
	user := web.SenderOf(ctx)
	if err := all.pages.Acquire(ctx, user, 1); err != nil {
		return err
	}
	defer all.pages.Release(user, 1)
	return do()
}

// object reads an object, with memory for it.
func (all *views) object(ctx context.Context, v *view, part query.Within) (*query.Page, *memory, error) {
	for size := int64(ofObject); ; {
		memory, err := all.take(ctx, size)
		if err != nil {
			return nil, nil, err
		}
		found, err := all.page(ctx, v, part, 1)
		if err == nil {
			taken := size
			for _, o := range found.Objects {
				size = int64(len(o.Body))
			}
			if size <= taken || memory.grow(size-taken) {
				return found, memory, nil
			}
		}
		if memory.shrink(0); err != nil {
			return nil, nil, err
		}
	}
}

// keep keeps an object in memory, if there is room. There is for the first one.
func (l *listing) keep(o *query.Object) bool {
	size := int64(len(o.Body))
	if l.size+size > ofList/2 && !l.memory.grow(size) && len(l.objects) > 0 {
		return false
	}
	l.size, l.objects = l.size+size, append(l.objects, o)
	return true
}

// each visits all objects, some at a time. After an error the answer is incomplete.
func (l *listing) each(ctx context.Context, all *views, visit func([]*query.Object) error) error {
	for len(l.objects) > 0 {
		n, size := 0, 0
		for n < len(l.objects) && n < 100 && (n == 0 || size < ofObject) {
			size += len(l.objects[n].Body)
			n++
		}
		if err := visit(l.objects[:n]); err != nil {
			return err
		}
		clear(l.objects[:n])
		l.objects = l.objects[n:]
	}
	for part := l.rest; part != nil; {
		l.memory.shrink(ofList)
		found, err := l.page(ctx, all, *part, objectsAtOnce)
		if err != nil {
			return err
		}
		for _, m := range found.Missing {
			if !slices.Contains(l.missing, m) {
				return fmt.Errorf("the log has changed while it was read: %s", m)
			}
		}
		next := *part
		next.After = found.Next
		l.objects, l.rest, part = found.Objects, nil, &next
		if err := l.each(ctx, all, visit); err != nil {
			return err
		}
		if next.After == "" {
			return nil
		}
	}
	return nil
}

// write writes an answer, whose head ends where its objects begin. encode returns some of them, with commas between them.
func (s *Server) write(ctx context.Context, w http.ResponseWriter, m media, l *listing, head []byte,
	encode func([]*query.Object) ([]byte, error)) error {
	encoder := m.encoder(w, http.StatusOK)
	out := bufio.NewWriterSize(encoder, 64<<10)
	_, _ = out.Write(head)
	separator := ""
	err := l.each(ctx, s.views, func(some []*query.Object) error {
		var text []byte
		err := s.views.work(ctx, func() (err error) {
			text, err = encode(some)
			return err
		})
		if err == nil {
			_, _ = out.WriteString(separator)
			_, err = out.Write(text)
		}
		separator = ","
		return err
	})
	if err == nil {
		_, _ = out.WriteString("]}\n")
		err = out.Flush() // the first error of all
	}
	if err == nil {
		err = encoder.Close()
	}
	if m.isYAML {
		return err // nothing was sent
	}
	if err != nil {
		if ctx.Err() == nil {
			s.slog.Warn("a list was cut", "error", err)
		}
		panic(http.ErrAbortHandler) // so that no client takes it for a complete one
	}
	return nil
}

// elements returns the elements of a list as JSON, with commas between them.
func elements(list any) ([]byte, error) {
	text, err := json.Marshal(list)
	return bytes.Trim(text, "[]"), err
}
