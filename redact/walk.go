package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// walk goes through one object once, and copies what is not hidden.
type walk struct {
	redactor *Redactor
	name     string // of the object
	again    bool
	raw      []byte
	decoder  *jsontext.Decoder
	path     []string
	out      []byte
	copied   int // of raw: what comes before is in out, or left out
}

func newWalk(r *Redactor, name string, raw []byte, again bool) *walk {
	return &walk{redactor: r, name: name, again: again, raw: raw, out: make([]byte, 0, len(raw)+len(raw)/8+128),
		decoder: jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
}

// at is how far raw was read.
func (w *walk) at() int { return int(w.decoder.InputOffset()) }

// flush copies up to the index.
func (w *walk) flush(to int) {
	if to > w.copied {
		w.out = append(w.out, w.raw[w.copied:to]...)
		w.copied = to
	}
}

// end gives what was copied, if nothing but space is left.
func (w *walk) end() ([]byte, error) {
	if _, err := w.decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, ErrMalformed
	}
	w.flush(len(w.raw))
	return w.out, nil
}

// object takes the object that comes next.
func (w *walk) object(nodes []*node) error {
	if w.decoder.PeekKind() != '{' {
		return ErrMalformed
	}
	if _, err := w.decoder.ReadToken(); err != nil {
		return err
	}
	end, kept, dropped := w.at(), false, false // end: of the last member that is not left out
	for w.decoder.PeekKind() != '}' {
		raw, err := w.decoder.ReadValue()
		if err != nil {
			return err
		}
		start := w.at() - len(raw)
		name, err := unquote(raw)
		if err != nil {
			return err
		}
		do, next := members(nodes, name)
		if do == drop {
			w.flush(end)
			if err := w.decoder.SkipValue(); err != nil {
				return err
			}
			w.copied, dropped = w.at(), true
			continue
		}
		if dropped && !kept {
			w.copied = start // without the comma
		}
		if err := w.member(name, do, next); err != nil {
			return err
		}
		end, kept = w.at(), true
	}
	_, err := w.decoder.ReadToken()
	return err
}

func (w *walk) member(name string, do action, next []*node) error {
	w.path = append(w.path, name)
	defer func() { w.path = w.path[:len(w.path)-1] }()
	return w.value(do, next)
}

// members says what becomes of a member: what is to be done with it as a whole, or what to look for in it. The strictest
// wins.
func members(nodes []*node, name string) (do action, next []*node) {
	for _, n := range nodes {
		found := n.named[name]
		if found != nil {
			do, next = max(do, found.do), append(next, found)
		}
		if n.each != nil {
			do, next = max(do, n.each.do), append(next, n.each)
		}
		if found == nil && n.each == nil {
			do = max(do, n.rest)
		}
	}
	return do, next
}

// value takes the value that comes next.
func (w *walk) value(do action, nodes []*node) error {
	kind := w.decoder.PeekKind()
	switch {
	case do != keep:
		return w.replace(do)
	case len(nodes) == 0:
		return w.decoder.SkipValue()
	case kind == '{':
		return w.object(nodes)
	}
	for _, n := range nodes {
		do = max(do, n.other)
	}
	switch {
	case do != keep:
		return w.replace(do)
	case kind == '[':
		return w.list(nodes)
	}
	return w.decoder.SkipValue()
}

// list takes the list that comes next. In the path of a hash all elements are alike, so that it stays the same when
// another one is put before it.
func (w *walk) list(nodes []*node) error {
	if _, err := w.decoder.ReadToken(); err != nil {
		return err
	}
	for i := 0; w.decoder.PeekKind() != ']'; i++ {
		do, next := members(nodes, strconv.Itoa(i))
		for _, n := range nodes {
			if n.through {
				next = append(next, n)
			}
		}
		if err := w.member("", do, next); err != nil {
			return err
		}
	}
	_, err := w.decoder.ReadToken()
	return err
}

// replace puts a hash in the place of the value that comes next.
func (w *walk) replace(do action) error {
	raw, err := w.decoder.ReadValue()
	if err != nil {
		return err
	}
	end := w.at()
	hash, err := w.hash(do, raw)
	if err != nil || hash == "" {
		return err
	}
	w.flush(end - len(raw))
	w.out = append(append(append(w.out, '"'), hash...), '"')
	w.copied = end
	return nil
}

// hash gives the hash of a value; none where the value is one already.
func (w *walk) hash(do action, raw []byte) (string, error) {
	if raw[0] != '"' {
		return w.redactor.sum(w.name, w.path, kindJSON, raw), nil
	}
	text, err := unquote(raw)
	if err != nil || w.again && isHash(text) {
		return "", err
	}
	if do == hashJSON {
		return w.redactor.sum(w.name, w.path, kindText, []byte(text)), nil
	}
	key := w.path[len(w.path)-1:] // without data or stringData
	if do == hashBase64 {
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
			return w.redactor.sum(w.name, key, kindValue, decoded), nil
		}
		return w.redactor.sum(w.name, w.path, kindText, []byte(text)), nil
	}
	return w.redactor.sum(w.name, key, kindValue, []byte(text)), nil
}

// unquote is the text of a raw JSON string that was read before.
func unquote(raw []byte) (text string, err error) {
	if raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	err = json.Unmarshal(raw, &text)
	return text, err
}
