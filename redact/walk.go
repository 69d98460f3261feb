package redact

import (
	"bytes"
	"encoding/base64"
	"strconv"

	"kubecdc/internal/rawjson"
)

// walk reads one object from front to back and copies what is not hidden. Once the scanner meets malformed text it finds
// nothing more, so only end returns an error.
type walk struct {
	rawjson.Scanner
	redactor *Redactor
	name     string // the object's name
	again    bool
	raw      []byte
	path     []string
	out      []byte
	copied   int // all of raw before this index is in out, or was left out
}

func newWalk(r *Redactor, name string, raw []byte, again bool) *walk {
	return &walk{Scanner: rawjson.New(raw), redactor: r, name: name, again: again, raw: raw,
		out: make([]byte, 0, len(raw)+len(raw)/8+128)}
}

func (w *walk) flush(to int) {
	if to > w.copied {
		w.out = append(w.out, w.raw[w.copied:to]...)
		w.copied = to
	}
}

// end returns what was copied, if raw was one JSON object and nothing else.
func (w *walk) end() ([]byte, error) {
	if !w.AtEnd() {
		return nil, ErrMalformed
	}
	w.flush(len(w.raw))
	return w.out, nil
}

func (w *walk) object(nodes []*node) {
	w.AtObject()
	end, written, dropped := w.Offset()+1, false, false // end is where the brace ends, or the last member that was written
	for raw, more := w.First(); more; raw, more = w.Next() {
		do, next := membersOf(nodes, raw)
		if do == drop {
			w.flush(end)
			w.Skip()
			w.copied, dropped = w.Offset(), true
			continue
		}
		if dropped && !written {
			w.copied = rawjson.SkipSpace(w.raw, rawjson.SkipSpace(w.raw, w.copied)+1) // without the comma
		}
		if do == keep && len(next) == 0 {
			w.Skip()
		} else {
			w.member(rawjson.Name(raw), do, next)
		}
		end, written = w.Offset(), true
	}
}

func (w *walk) member(name string, do action, next []*node) {
	w.path = append(w.path, name)
	w.value(do, next)
	w.path = w.path[:len(w.path)-1]
}

// membersOf returns members of a raw name. Few names are escaped or long. The others take no allocation.
func membersOf(nodes []*node, raw []byte) (do action, next []*node) {
	if bytes.IndexByte(raw, '\\') >= 0 {
		return members(nodes, rawjson.Name(raw))
	}
	return members(nodes, string(raw))
}

// members returns what becomes of a member: what is done with all of it, or which nodes its own members follow. The strictest
// action wins.
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

// value copies the value that comes next, or what its action leaves of it.
func (w *walk) value(do action, nodes []*node) {
	if do == keep && len(nodes) > 0 && !w.AtObject() {
		for _, n := range nodes {
			do = max(do, n.other)
		}
	}
	switch {
	case do != keep:
		w.replace(do)
	case len(nodes) > 0 && w.AtObject():
		w.object(nodes)
	case len(nodes) > 0 && w.AtArray():
		w.array(nodes)
	default:
		w.Skip()
	}
}

// array copies the array that comes next. In the path of a hash all elements are alike, so that inserting an element before the
// value does not change its hash.
func (w *walk) array(nodes []*node) {
	more := w.FirstElement()
	for i := 0; more; i++ {
		do, next := members(nodes, strconv.Itoa(i))
		for _, n := range nodes {
			if n.through {
				next = append(next, n)
			}
		}
		w.member("", do, next)
		more = w.NextElement()
	}
}

// replace puts a hash in the place of the value that comes next, unless the value is one already.
func (w *walk) replace(do action) {
	raw := w.Skip()
	if raw == nil {
		return
	}
	end := w.Offset()
	if do == drop { // an element of an array, whose place stays
		w.flush(end - len(raw))
		w.out, w.copied = append(w.out, "null"...), end
		return
	}
	hash := w.hash(do, raw)
	if hash == "" {
		return
	}
	w.flush(end - len(raw))
	w.out = append(append(append(w.out, '"'), hash...), '"')
	w.copied = end
}

// hash returns the hash of a value, or "" if the value is a hash already.
func (w *walk) hash(do action, raw []byte) string {
	text, isText := rawjson.Text(raw)
	if !isText {
		return w.redactor.sum(w.name, w.path, kindJSON, raw)
	}
	if w.again && isHash(text) {
		return ""
	}
	value, isValue := []byte(text), do == hashText
	if do == hashBase64 {
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
			value, isValue = decoded, true
		}
	}
	if isValue {
		return w.redactor.sum(w.name, w.path[len(w.path)-1:], kindValue, value) // without data or stringData in the path
	}
	return w.redactor.sum(w.name, w.path, kindText, value)
}
