package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// Page is one page of a list without its items.
type Page struct {
	Version   change.ResourceVersion // of the whole list: the same on every page
	Continue  string                 // empty on the last page
	Remaining int64                  // how many objects follow this page; -1 when the server does not say (selectors)
}

// check returns an error if the list's version can't be compared.
func (p *Page) check() error {
	if p.Version.Valid() {
		return nil
	}
	return fmt.Errorf("%w: the list's is %s", ErrUnsupported, quoteVersion(string(p.Version)))
}

// List reads one page and calls visit for each item while the page is being read, so the page is never in memory as a whole.
// visit may keep the item's bytes.
func (c *Client) List(ctx context.Context, s *change.Stream, o ListOptions, visit func(*Page, []byte) error) (Page, error) {
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

// readPage parses a List object: {"kind":…,"metadata":{…},"items":[…]}, in any order. An object that lacks metadata or items,
// or has one of them twice, is not a list, and a list that does not end the response may be cut.
func readPage(body io.Reader, visit func(*Page, []byte) error) (Page, error) {
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
			return eachItem(r, func(raw []byte) error { return visit(&p, raw) })
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
		return fmt.Errorf("%w: its metadata is not that of a list", rawjson.ErrMalformed)
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

func eachItem(r *rawjson.Reader, visit func([]byte) error) error {
	if next, err := r.Peek(); err == nil && next == 'n' { // "items": null
		_, err = r.Value()
		return err
	}
	return r.Array(func() error {
		raw, err := r.Value()
		if err != nil {
			return err
		}
		return visit(bytes.Clone(raw))
	})
}
