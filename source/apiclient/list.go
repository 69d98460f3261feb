package apiclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

type Page struct {
	Version   change.ResourceVersion // the version of the list, which is the same on every page
	Continue  string                 // empty on the last page
	Remaining int64                  // how many objects follow this page, or -1 if the server does not say (selectors)
	Limit     int                    // how many objects were asked for; 0: all
}

func (p *Page) check() error {
	if p.Version.Valid() {
		return nil
	}
	return fmt.Errorf("%w: the list's is %s", ErrUnsupported, quoteVersion(string(p.Version)))
}

// Visit takes an item of a list. The item's bytes are valid until it returns. err says why the protocol can't use the item, with
// the errors of ParseObject. If the item is too large (*TooLargeError), o has its first bytes, and its identity if these contain
// it.
type Visit func(p *Page, o *Object, err error) error

// List reads one page and calls visit for each item while the page is being read, so the complete page is never in memory.
func (c *Client) List(ctx context.Context, s *change.Stream, o ListOptions, visit Visit) (p Page, err error) {
	accept := acceptJSON
	if o.MetadataOnly {
		accept = acceptListMeta
	}
	if o.Exact != "" {
		visit = exactly(o.Exact, visit)
	}
	if o.Pace != nil {
		o.Limit = o.Pace.limitBelow(o.Limit)
		began, objects, each := time.Now(), 0, visit
		visit = func(p *Page, o *Object, err error) error {
			objects++
			return each(p, o, err)
		}
		defer func() {
			if ctx.Err() == nil { // else the page was given up
				o.Pace.record(o.Limit, objects, time.Since(began), err)
			}
		}()
	}
	body, _, err := c.get(ctx, CollectionPath(s, o.Namespace), o.query(s), accept)
	if err != nil {
		return Page{}, err
	}
	defer body.Close()
	p, err = readPage(body, visit)
	p.Limit = o.Limit
	if err == nil && o.Exact != "" && p.Version.Compare(o.Exact) != 0 {
		err = fmt.Errorf("%w: asked for resourceVersion %s, it answers with %s", ErrNotExact, o.Exact, p.Version)
	}
	return p, err
}

// ErrNotExact reports a server that answers an exact read with another resourceVersion, or with an object that is newer.
var ErrNotExact = errors.New("the server ignores resourceVersionMatch=Exact")

func exactly(version change.ResourceVersion, visit Visit) Visit {
	return func(p *Page, o *Object, err error) error {
		if err == nil && o.Version.Compare(version) > 0 {
			return fmt.Errorf("%w: asked for resourceVersion %s, it answers with an object at %s", ErrNotExact, version,
				o.Version)
		}
		return visit(p, o, err)
	}
}

// ListAll reads all pages at one resourceVersion, and returns it. It is o.Exact if that is set, or else the present one.
func (c *Client) ListAll(ctx context.Context, s *change.Stream, o ListOptions, visit Visit) (change.ResourceVersion, error) {
	for {
		p, err := c.List(ctx, s, o, visit)
		if err != nil {
			return "", err
		}
		if o.Continue, o.Exact = p.Continue, p.Version; o.Continue == "" {
			return p.Version, nil
		}
	}
}

// First asks for the first object of a collection: whether the collection can be listed, and its resourceVersion now, by a
// consistent read.
func (c *Client) First(ctx context.Context, s *change.Stream) (change.ResourceVersion, error) {
	p, err := c.List(ctx, s, ListOptions{MetadataOnly: true, Limit: 1}, func(*Page, *Object, error) error { return nil })
	return p.Version, err
}

// readPage parses a List object: {"kind":…,"metadata":{…},"items":[…]}, in any order. An object is no list if it lacks metadata
// or items, or has one of them twice. A list that does not end the response may be cut.
func readPage(body io.Reader, visit Visit) (Page, error) {
	r := rawjson.NewReader(body)
	p, seen := Page{Remaining: -1}, map[string]int{}
	err := r.Object(func(name string) error {
		seen[name]++
		switch {
		case name == "metadata":
			return p.readMetadata(r)
		case name == "items" && seen["metadata"] > 0 && !p.Version.Valid():
			return p.check()
		case name == "items":
			return eachItem(r, func(o *Object, err error) error { return visit(&p, o, err) })
		}
		_, err := r.Value()
		return err
	})
	if err == nil {
		err = r.End()
	}
	if err == nil && (seen["metadata"] != 1 || seen["items"] != 1) {
		err = fmt.Errorf("%w: it has metadata %d times and items %d times", rawjson.ErrMalformed, seen["metadata"], seen["items"])
	}
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return p, fmt.Errorf("read a list: %w", err)
	}
	return p, nil
}

// readMetadata returns no text of the response in an error.
func (p *Page) readMetadata(r *rawjson.Reader) error {
	raw, err := r.Value()
	if err != nil {
		return err
	}
	var m metav1.ListMeta
	if json.Unmarshal(raw, &m) != nil {
		return fmt.Errorf("%w: it has no metadata of a list", rawjson.ErrMalformed)
	}
	p.Version, p.Continue, p.Remaining = change.ResourceVersion(m.ResourceVersion), m.Continue, -1
	if m.RemainingItemCount != nil {
		p.Remaining = *m.RemainingItemCount
	}
	if p.Remaining > 0 && p.Continue == "" {
		return fmt.Errorf("%w: %d more items follow, and it has no token for them", rawjson.ErrMalformed, p.Remaining)
	}
	return nil
}

// eachItem finds an item's end and its identity in one pass.
func eachItem(r *rawjson.Reader, visit func(*Object, error) error) error {
	if next, err := r.Peek(); err == nil && next == 'n' { // "items": null
		_, err = r.Value()
		return err
	}
	var o Object
	return r.Array(func() error {
		raw, ok, err := r.Scan(o.scan)
		if large, ok := errors.AsType[*rawjson.TooLargeError](err); ok {
			o.Raw = raw
			return visit(&o, &TooLargeError{o.Key(), o.Version, large.Bytes})
		}
		if err != nil {
			return err
		}
		o.Raw = raw
		if !ok {
			return visit(&o, errObject)
		}
		return visit(&o, o.Check())
	})
}
