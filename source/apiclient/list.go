package apiclient

import (
	"context"
	"fmt"
	"io"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// Page is one page of a list without its items.
type Page struct {
	Version   change.ResourceVersion // of the whole list: the same on every page
	Continue  string                 // empty on the last page
	Remaining int64                  // how many objects follow this page; -1 when the server does not say (selectors)
}

// check returns an error if the list's version can't be compared. Servers send the metadata before the items, so nothing is
// taken from a list without a version.
func (p *Page) check() error {
	if p.Version.Valid() {
		return nil
	}
	return fmt.Errorf("%w: the list's is %q", ErrUnsupported, p.Version)
}

// Visit takes an item of a list. The item's bytes are valid until it returns. err says why the item is no object that the protocol
// can use, as that of ParseObject does.
type Visit func(p *Page, o *Object, err error) error

// List reads one page and calls visit for each item while the page is being read, so the page is never in memory as a whole.
func (c *Client) List(ctx context.Context, s *change.Stream, o ListOptions, visit Visit) (Page, error) {
	accept := acceptJSON
	if o.MetadataOnly {
		accept = acceptListMeta
	}
	body, err := c.get(ctx, CollectionPath(s, o.Namespace), o.query(s), accept)
	if err != nil {
		return Page{}, err
	}
	defer body.Close()
	return readPage(body, visit)
}

// readPage parses a List object: {"kind":…,"metadata":{…},"items":[…]}, in any order.
func readPage(body io.Reader, visit Visit) (Page, error) {
	r := rawjson.NewReader(body)
	p := Page{Remaining: -1}
	err := r.Object(func(name string) error {
		switch name {
		case "metadata":
			return p.readMetadata(r)
		case "items":
			return eachItem(r, func(o *Object, err error) error { return visit(&p, o, err) })
		}
		_, err := r.Value()
		return err
	})
	if err != nil {
		return p, fmt.Errorf("read a list: %w", err)
	}
	return p, p.check()
}

func (p *Page) readMetadata(r *rawjson.Reader) error {
	raw, err := r.Value()
	if err != nil {
		return err
	}
	s := rawjson.New(raw)
	for name, more := s.First(); more; name, more = s.Next() {
		value := s.Skip()
		switch string(name) {
		case "resourceVersion":
			version, _ := rawjson.Text(value)
			p.Version = change.ResourceVersion(version)
		case "continue":
			p.Continue, _ = rawjson.Text(value)
		case "remainingItemCount":
			if _, err := fmt.Sscan(string(value), &p.Remaining); err != nil {
				return fmt.Errorf("remainingItemCount: %w", err)
			}
		}
	}
	if !s.OK() {
		return rawjson.ErrMalformed
	}
	return p.check()
}

// eachItem finds an item's end and its identity in one pass.
func eachItem(r *rawjson.Reader, visit func(*Object, error) error) error {
	if next, err := r.Peek(); err == nil && next == 'n' { // "items": null
		_, err = r.Value()
		return err
	}
	var o Object
	scan := func(s *rawjson.Scanner) { o = Object{}; o.scan(s) }
	return r.Array(func() error {
		raw, ok, err := r.Scan(scan)
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
