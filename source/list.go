package source

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// page is what one page of a list says besides its items.
type page struct {
	version       string // of the whole list: the same on every page
	continueToken string // empty on the last page
	remaining     int64  // how many objects follow this page; -1 when the server does not say (selectors)
}

// check makes sure that the list's version is one that can be compared. Servers send the metadata before the items, so
// that nothing is taken from a list without one.
func (p *page) check() error {
	if change.ValidVersion(p.version) {
		return nil
	}
	return fmt.Errorf("%w: the list's is %q", errUnsupported, p.version)
}

// listPage reads one page and hands each item to visit as it comes off the wire: never the page as a whole.
// The item's bytes are the callee's to keep.
func (c *Client) listPage(ctx context.Context, s *change.Stream, metadataOnly bool, limit int, continueToken string, visit func(*page, []byte) error) (page, error) {
	accept := acceptJSON
	if metadataOnly {
		accept = acceptListMeta
	}
	body, err := c.get(ctx, collectionPath(s.Resource, s.Namespace), listParams(s, limit, continueToken), accept)
	if err != nil {
		return page{}, err
	}
	defer body.Close()
	return readPage(body, visit)
}

// exactPage reads the collection as it was at the version.
func (c *Client) exactPage(ctx context.Context, s *change.Stream, version string, visit func(*page, []byte) error) (page, error) {
	body, err := c.get(ctx, collectionPath(s.Resource, s.Namespace), exactParams(s, version, 0), acceptListMeta)
	if err != nil {
		return page{}, err
	}
	defer body.Close()
	return readPage(body, visit)
}

// readPage takes a List object apart: {"kind":…,"metadata":{…},"items":[…]}, in whatever order.
func readPage(body io.Reader, visit func(*page, []byte) error) (page, error) {
	d := jsontext.NewDecoder(body, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	p := page{remaining: -1}
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

// unquoted is an error of the JSON decoder without what it quotes.
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

func (p *page) readMetadata(d *jsontext.Decoder) error {
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	s := rawjson.New(raw)
	for name, more := s.First(); more; name, more = s.Next() {
		value := s.Skip()
		switch string(name) {
		case "resourceVersion":
			p.version, _ = rawjson.Text(value)
		case "continue":
			p.continueToken, _ = rawjson.Text(value)
		case "remainingItemCount":
			if _, err := fmt.Sscan(string(value), &p.remaining); err != nil {
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
