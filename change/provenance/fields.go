package provenance

import (
	"bytes"
	"strings"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
)

// A list of fields has at most maxFields paths and maxBytes bytes. A list that was cut is followed by cutMark.
const (
	maxFields = 10
	maxBytes  = 1000
	cutMark   = "..."
)

// update compares the two states of an object.
type update struct {
	*Reader
	from     int // where the list of fields begins in out
	fields   int
	cut      bool
	top      []byte   // the member whose members are compared
	metadata metadata // the new state's, with the times that are new
	managed  bool     // before and after are the managedFields of both states
}

// updated sets what two states of the object show. A time that did not change means nothing: the API server leaves it as it was
// when it knows no manager of the change.
func (r *Reader) updated(c *change.Change) {
	if c.Before == nil || change.IsStub(c.Before) {
		return
	}
	u := update{Reader: r, from: len(r.out)}
	r.states = pair{rawjson.NewCursor(c.Before), rawjson.NewCursor(c.After)}
	r.states.members(u.member)
	c.Provenance.Fields = r.since(u.from)
	if u.managed {
		var moved []byte
		c.Provenance.Managers, moved = r.compareManagers()
		c.Provenance.Time, c.Provenance.Source = parseTime(moved), change.FromManagedFields
	}
	if requested := u.metadata.requested(); requested.After(c.Provenance.Time) {
		c.Provenance.Time, c.Provenance.Source = requested, change.FromDeletionTimestamp
	}
}

func (u *update) member(name []byte, p *pair) bool {
	u.top = name
	switch {
	case !p.areObjects():
		if !p.equal() {
			u.addField(nil)
		}
	case string(name) == "metadata":
		p.members(u.inMetadata)
	case p.same():
	default:
		p.members(u.inner)
	}
	return true
}

func (u *update) inMetadata(name []byte, p *pair) bool {
	switch string(name) {
	case "resourceVersion", "generation": // every update changes the first, and every update of spec the second
		p.equal()
	case "managedFields":
		if u.managed = p.was.AtArray() && p.now.AtArray(); u.managed {
			u.readChanged(p)
		} else {
			p.equal()
		}
	case "deletionTimestamp":
		after := p.now
		if was := p.was.Skip(); len(was) == 0 {
			u.metadata.deleted = timeOf(after.Skip())
			u.addField(name)
		}
		p.now.Skip()
	case "deletionGracePeriodSeconds":
		after := p.now
		u.metadata.grace = after.Skip()
		return u.inner(name, p)
	default:
		return u.inner(name, p)
	}
	return true
}

func (u *update) inner(name []byte, p *pair) bool {
	if !p.equal() {
		u.addField(name)
	}
	return !u.cut || string(u.top) == "metadata"
}

// addField adds the path of u.top, or of a member of it.
func (u *update) addField(name []byte) {
	if u.cut {
		return
	}
	start := len(u.out)
	u.separate(u.from)
	u.addName(u.top, `\.,`)
	if name != nil {
		u.out = append(u.out, '.')
		u.addName(name, `\.,`)
	}
	if u.fields++; u.fields > maxFields || len(u.out)-u.from > maxBytes {
		u.out, u.cut = u.out[:start], true
		u.separate(u.from)
		u.out = append(u.out, cutMark...)
	}
}

// separate puts a comma before the next element of the list that begins at from.
func (r *Reader) separate(from int) {
	if len(r.out) > from {
		r.out = append(r.out, ',')
	}
}

// addName adds the text of a raw name, with a backslash before each of the special characters.
func (r *Reader) addName(raw []byte, special string) {
	if !bytes.ContainsAny(raw, special) { // a backslash is special in all lists
		r.out = append(r.out, raw...)
		return
	}
	for _, c := range []byte(rawjson.Name(raw)) {
		if strings.IndexByte(special, c) >= 0 {
			r.out = append(r.out, '\\')
		}
		r.out = append(r.out, c)
	}
}
