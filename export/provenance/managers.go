package provenance

import (
	"bytes"
	"iter"
	"slices"

	"kubecdc/internal/rawjson"
)

// entry is an element of managedFields: what a field manager last did to the object
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management).
type entry struct {
	raw                                         []byte
	manager, operation, apiVersion, subresource []byte // as JSON
	time                                        []byte // as timeOf returns it
}

// same reports whether two entries are of the same manager, doing the same kind of thing.
func (e *entry) same(other *entry) bool {
	return bytes.Equal(e.manager, other.manager) && bytes.Equal(e.operation, other.operation) &&
		bytes.Equal(e.apiVersion, other.apiVersion) && bytes.Equal(e.subresource, other.subresource)
}

// readEntries reads managedFields, which comes next, into memory that is used again.
func readEntries(into *[]entry, c *rawjson.Cursor) []entry {
	*into = (*into)[:0]
	for raw := range elements(managedFields(c)) {
		*into = append(*into, readEntry(raw))
	}
	return *into
}

// readChanged reads the entries of both states that the other one does not have.
func (t *Teller) readChanged(p *pair) {
	t.before, t.after = t.before[:0], t.after[:0]
	for raw := range elements(managedFields(&p.was)) {
		t.before = append(t.before, entry{raw: raw})
	}
	for raw := range elements(managedFields(&p.is)) {
		n := len(t.before)
		t.before = slices.DeleteFunc(t.before, func(e entry) bool { return rawjson.Same(e.raw, raw) })
		if len(t.before) == n {
			t.after = append(t.after, readEntry(raw))
		}
	}
	for i := range t.before {
		t.before[i] = readEntry(t.before[i].raw)
	}
}

// managedFields passes managedFields and returns its text. To read all of it would take longer than everything else, so this
// looks for its end. Of what the API server writes, the first array that ends after it began is its own: the sets of
// fields in it have no arrays (FieldsV1), and a quote that follows a comma begins a string, so what is before it is in none.
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
		if follows := rest[end:]; bytes.HasPrefix(follows, []byte(`},"`)) || bytes.HasPrefix(follows, []byte(`,"`)) {
			return c.Advance(end)
		}
	}
}

// elements iterates over the entries of managedFields. An object that follows another one without a name begins an entry, and
// fieldsV1 is in no other place: the names in the sets of fields begin with f:, k:, v: or i:, or are a dot.
func elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(array) < 2 {
			return
		}
		array = array[1 : len(array)-1]
		for more := len(array) > 0; more; {
			raw := array
			fields := indexFields(array, 0)
			next := indexFields(array, fields+1)
			if more = fields >= 0 && next >= 0; more {
				start := fields + bytes.LastIndexByte(array[fields:next], '{')
				raw, array = array[:start-1], array[start:]
			}
			if !yield(raw) {
				return
			}
		}
	}
}

// indexFields returns where fieldsV1 is from an index on; -1: nowhere. There are few other Vs.
func indexFields(b []byte, from int) int {
	const before, after = `"fields`, `V1":{`
	for {
		n := bytes.IndexByte(b[from:], 'V')
		if n < 0 {
			return -1
		}
		if from += n; bytes.HasPrefix(b[from:], []byte(after)) && bytes.HasSuffix(b[:from], []byte(before)) {
			return from
		}
		from++
	}
}

func readEntry(raw []byte) entry {
	e, c := entry{raw: raw}, rawjson.At(raw)
	c.Enter()
	for name, more := c.Member(); more; name, more = c.Member() {
		if string(name) == "fieldsV1" {
			passFields(&c)
			continue
		}
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
		}
	}
	return e
}

// passFields passes the fields of an entry. After them are texts, or nothing.
func passFields(c *rawjson.Cursor) {
	rest := c.Rest()
	c.Advance(1 + bytes.LastIndexByte(rest[:max(len(rest)-1, 0)], '}'))
}

// newestOf returns the newest time of entries; nil if none has one.
func newestOf(entries []entry) (newest []byte) {
	for i := range entries {
		if bytes.Compare(entries[i].time, newest) > 0 {
			newest = entries[i].time
		}
	}
	return newest
}

// compareManagers lists the managers whose entries are new or have another time. If there are none, these are the managers whose
// entries have other fields: times are of whole seconds. (A manager whose fields another one took has another entry too, but not
// another time.) moved is the newest time, if that is newer than what it replaces.
func (t *Teller) compareManagers() (managers, moved []byte) {
	from := len(t.out)
	for _, byTime := range []bool{true, false} {
		for i := range t.after {
			now := &t.after[i]
			was := find(t.before, now)
			if was == nil || byTime && !bytes.Equal(was.time, now.time) || !byTime && !rawjson.Same(was.raw, now.raw) {
				t.addManager(from, now)
			}
		}
		if len(t.out) > from {
			break
		}
	}
	if newest := newestOf(t.after); bytes.Compare(newest, newestOf(t.before)) > 0 {
		moved = newest
	}
	return t.since(from), moved
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
func (t *Teller) addManager(from int, e *entry) {
	if len(e.manager) < 2 {
		return
	}
	start := len(t.out)
	t.separate(from)
	name := len(t.out)
	t.addName(e.manager[1:len(e.manager)-1], `\,`)
	for listed := range bytes.SplitSeq(t.out[from:start], []byte{','}) {
		if bytes.Equal(listed, t.out[name:]) {
			t.out = t.out[:start]
			return
		}
	}
}
