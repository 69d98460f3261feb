package provenance

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"

	"kubecdc/internal/delta"
	"kubecdc/internal/rawjson"
)

// entry is an element of managedFields: what a field manager last did to the object
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management).
type entry struct {
	raw                                         []byte
	manager, operation, apiVersion, subresource []byte // as JSON
	time                                        []byte // as timeOf returns it
	fields                                      []byte // fieldsV1
}

// same reports whether two entries are of the same manager and operation.
func (e *entry) same(other *entry) bool {
	return bytes.Equal(e.manager, other.manager) && bytes.Equal(e.operation, other.operation) &&
		bytes.Equal(e.apiVersion, other.apiVersion) && bytes.Equal(e.subresource, other.subresource)
}

// mostEntries limits how many entries of each state are compared, each with each. The API server retains ten entries of updates,
// and one for each manager that applies. A client may write thousands.
const mostEntries = 500

// readChanged reads the entries that only one of the two states has. It reads none if there are too many to compare. The API
// server never writes an entry twice.
func (r *Reader) readChanged(p *pair) {
	r.before, r.after = r.before[:0], r.after[:0]
	was, now := managedFields(&p.was), managedFields(&p.now)
	if bytes.Equal(was, now) {
		return
	}
	same := commonEntries(was, now)
	for raw := range elements(was, same) {
		r.before = append(r.before, entry{raw: raw})
	}
	for raw := range elements(now, same) {
		if max(len(r.before), len(r.after)) >= mostEntries {
			r.before, r.after = r.before[:0], r.after[:0]
			return
		}
		if i := slices.IndexFunc(r.before, func(e entry) bool { return rawjson.Same(e.raw, raw) }); i >= 0 {
			r.before = slices.Delete(r.before, i, i+1)
		} else {
			r.after = append(r.after, readEntry(raw))
		}
	}
	for i := range r.before {
		r.before[i] = readEntry(r.before[i].raw)
	}
}

// managedFields passes managedFields and returns its text. Parsing all of it would take longer than everything else, so this
// searches for its end. The first array that ends after the beginning is its own, because the API server writes the sets of
// fields in it without arrays (FieldsV1). A string may contain what seems to be the end. Then the string's quote follows, and no
// name.
func managedFields(c *rawjson.Cursor) []byte {
	rest := c.Rest()
	if !bytes.HasPrefix(rest, []byte(`[{"`)) {
		return c.Skip()
	}
	for end := 0; ; {
		n := bytes.IndexByte(rest[end:], ']')
		if n < 0 {
			return c.Skip()
		}
		end += n + 1
		follows := bytes.TrimPrefix(rest[end:], []byte(`}`))
		switch {
		case !bytes.HasPrefix(follows, []byte(`,"`)):
		case beginsName(follows[2:]):
			return c.Advance(end)
		default:
			return c.Skip()
		}
	}
}

// beginsName reports whether a letter comes next. After the quote that ends a string, there is none.
func beginsName(b []byte) bool { return len(b) > 0 && (b[0]|0x20 >= 'a' && b[0]|0x20 <= 'z') }

// commonEntries returns the offset of the first entry that may differ. The entries before it are the same in both.
func commonEntries(a, b []byte) int {
	for n := delta.CommonPrefix(a, b); n > 0; {
		end := bytes.LastIndex(a[:n], entryBegins)
		if end < 0 {
			break
		}
		if begin := end + 2; begin+2 < n && beginsName(a[begin+2:]) {
			return begin
		}
		n = end + len(entryBegins) - 1
	}
	return 1
}

// elements iterates over the entries of managedFields, starting at an offset.
func elements(array []byte, from int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(array) < 2 {
			return
		}
		array = array[from : len(array)-1]
		for len(array) > 0 {
			end := entryEnd(array)
			if !yield(array[:end]) {
				return
			}
			array = array[min(end+1, len(array)):]
		}
	}
}

// entryBegins is the beginning of an entry that follows another one: an object, without the name.
var entryBegins = []byte(`},{"`)

// entryEnd returns where the first entry ends.
func entryEnd(array []byte) int {
	for place := 0; ; {
		n := bytes.Index(array[place:], entryBegins)
		if n < 0 {
			return len(array)
		}
		if place += n + 4; beginsName(array[place:]) {
			return place - 3
		}
	}
}

func readEntry(raw []byte) entry {
	e, c := entry{raw: raw}, rawjson.NewCursor(raw)
	c.Enter()
	for name, more := c.Member(); more; name, more = c.Member() {
		switch value := c.Skip(); string(name) {
		case "manager":
			e.manager = value
		case "operation":
			e.operation = value
		case "apiVersion":
			e.apiVersion = value
		case "subresource":
			e.subresource = value
		case "time":
			e.time = timeOf(value)
		case "fieldsV1":
			e.fields = value
		}
	}
	return e
}

// newestTime returns the newest time in managedFields, or nil if there is none. It does not read what comes after an entry's
// time.
func newestTime(managedFields []byte) (newest []byte) {
	for raw := range elements(managedFields, 1) {
		c := rawjson.NewCursor(raw)
		c.Enter()
		for name, more := c.Member(); more; name, more = c.Member() {
			value := c.Skip()
			if string(name) != "time" {
				continue
			}
			if moment := timeOf(value); bytes.Compare(moment, newest) > 0 {
				newest = moment
			}
			break
		}
	}
	return newest
}

// newestOf returns the newest time of entries, or nil if none has one.
func newestOf(entries []entry) (newest []byte) {
	for i := range entries {
		if bytes.Compare(entries[i].time, newest) > 0 {
			newest = entries[i].time
		}
	}
	return newest
}

// compareManagers lists the managers whose entries are new or have another time. If there are none, it lists the managers whose
// entries gained fields, because times only have seconds. A manager that lost fields to another one has a changed entry too, but
// is not listed. Neither is the manager of the entries that the API server merges when there are too many. moved is the newest
// time, if it is newer than what it replaces.
func (r *Reader) compareManagers() (managers, moved []byte) {
	from := len(r.out)
	for _, byTime := range []bool{true, false} {
		for i := range r.after {
			now := &r.after[i]
			was := find(r.before, now)
			if string(now.manager) != ancient && (was == nil ||
				byTime && len(now.time) > 0 && !bytes.Equal(was.time, now.time) || !byTime && now.gained(was)) {
				r.addManager(from, now)
			}
		}
		if len(r.out) > from {
			break
		}
	}
	if newest := newestOf(r.after); bytes.Compare(newest, newestOf(r.before)) > 0 {
		moved = newest
	}
	return r.since(from), moved
}

// ancient is the manager of entries that the API server has merged.
const ancient = `"ancient-changes"`

// fieldSet is a set of fields: a name, and the set within it.
type fieldSet map[string]fieldSet

// gained reports whether an entry has a field that it did not have before.
func (e *entry) gained(was *entry) bool {
	var has, had fieldSet
	return json.Unmarshal(e.fields, &has) == nil && json.Unmarshal(was.fields, &had) == nil && had.lacks(has)
}

// lacks reports whether the other set has a field that the set does not have.
func (s fieldSet) lacks(other fieldSet) bool {
	for name, inner := range other {
		if within, found := s[name]; !found || within.lacks(inner) {
			return true
		}
	}
	return false
}

func find(entries []entry, wanted *entry) *entry {
	for i := range entries {
		if entries[i].same(wanted) {
			return &entries[i]
		}
	}
	return nil
}

// addManager adds the manager of an entry to the list that begins at from, unless the list has it.
func (r *Reader) addManager(from int, e *entry) {
	if len(e.manager) < 2 {
		return
	}
	start := len(r.out)
	r.separate(from)
	name := len(r.out)
	r.addName(e.manager[1:len(e.manager)-1], `\,`)
	for listed := range bytes.SplitSeq(r.out[from:start], []byte{','}) {
		if bytes.Equal(listed, r.out[name:]) {
			r.out = r.out[:start]
			return
		}
	}
}
