package apiclient

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// Page is what one page of a list says besides its items.
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

// List reads one page and hands each item to visit as it comes off the wire: never the page as a whole. The visitor may
// keep the item's bytes.
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

// readPage takes a List object apart: {"kind":…,"metadata":{…},"items":[…]}, in any order.
func readPage(body io.Reader, visit func(*Page, []byte) error) (Page, error) {
	d := jsontext.NewDecoder(body, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	p := Page{Remaining: -1}
	if err := expect(d, '{'); err != nil {
		return p, err
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return p, fmt.Errorf("read a list: %w", unquoted(err))
		}
		switch name.String() {
		case "metadata":
			if err = p.readMetadata(d); err == nil {
				err = p.check()
			}
		case "items":
			err = eachItem(d, func(raw []byte) error { return visit(&p, raw) })
		default:
			err = d.SkipValue()
		}
		if err != nil {
			return p, fmt.Errorf("read a list: %w", unquoted(err))
		}
	}
	return p, p.check()
}

func expect(d *jsontext.Decoder, kind jsontext.Kind) error {
	t, err := d.ReadToken()
	if err == nil && t.Kind() != kind {
		err = rawjson.ErrMalformed
	}
	if err != nil {
		return fmt.Errorf("read a list: %w", unquoted(err))
	}
	return nil
}

// unquoted returns an error of the JSON decoder without the text that it quotes.
func unquoted(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case !errors.As(err, &syntax):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w at byte %d", rawjson.ErrMalformed, syntax.ByteOffset)
}

func (p *Page) readMetadata(d *jsontext.Decoder) error {
	raw, err := d.ReadValue()
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
	return nil
}

func eachItem(d *jsontext.Decoder, visit func([]byte) error) error {
	if d.PeekKind() == 'n' { // "items": null
		return d.SkipValue()
	}
	if err := expect(d, '['); err != nil {
		return err
	}
	for d.PeekKind() != ']' {
		raw, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := visit(append([]byte(nil), raw...)); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}
