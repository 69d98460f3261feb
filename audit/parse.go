package audit

import (
	"slices"
	"time"

	"kubecdc/internal/rawjson"
)

// Parser finds audit events in JSON, and makes records of those that could have changed an object.
type Parser struct {
	// the event's path in what wraps it. A list is passed through, and a text is read as JSON
	Path   []string
	Wanted func(resource, namespace string) bool // nil: all
	All    bool                                  // requests that changed nothing, too: refused ones and dry runs
	Extra  []string                              // which members of a user's extra are kept; *: all
	// Hide gives the hash of a user, a group or an address. It returns what need not be hidden as it is. nil hides nothing.
	Hide func(kind Kind, value string) string
}

// Kind is a kind of value that KUBECDC_AUDIT_HIDE can hide.
type Kind string

const (
	User    Kind = "users"
	Group   Kind = "groups"
	Address Kind = "addresses"
)

// Tally counts events by what became of them.
type Tally struct {
	Records int // they became records
	Skipped int // they changed no object
	Broken  int // lines that are no audit events, and events that lack what every one has
}

func (t *Tally) add(more Tally) {
	t.Records += more.Records
	t.Skipped += more.Skipped
	t.Broken += more.Broken
}

// Parse calls keep with a record for each event of a line that the parser selects. The line is an Event, an EventList, or what
// wraps them. The tally also counts events that are not selected, and text that is no event. received is the time of the
// record. A record holds none of the line's memory.
func (p *Parser) Parse(line []byte, received time.Time, keep func(Record)) (t Tally) {
	s := rawjson.New(line)
	if s.Skip(); !s.OK() || !s.AtEnd() {
		return Tally{Broken: 1}
	}
	p.unwrap(line, p.Path, func(event []byte) { t.add(p.one(event, received, keep)) }, func() { t.Broken++ })
	return t
}

// unwrap calls found for each object at the end of the path, or broken where there is none.
func (p *Parser) unwrap(value []byte, path []string, found func(event []byte), broken func()) {
	c := rawjson.NewCursor(value)
	switch {
	case c.AtArray():
		for c.Enter(); c.Element(); {
			p.unwrap(c.Skip(), path, found, broken)
		}
	case c.AtObject() && len(path) > 0:
		p.unwrap(rawjson.Member(value, path[0]), path[1:], found, broken)
	case c.AtObject():
		if items := listed(value); items != nil {
			p.unwrap(items, nil, found, broken)
			return
		}
		found(value)
	default:
		text, isText := rawjson.Text(c.Skip())
		if s := rawjson.New([]byte(text)); !isText || !s.AtObject() || s.Skip() == nil || !s.AtEnd() {
			broken()
			return
		}
		p.unwrap([]byte(text), path, found, broken)
	}
}

// listed returns the events of an EventList. Single events are more frequent than lists, so only the first members are read to
// see that an object is no list.
func listed(object []byte) []byte {
	c := rawjson.NewCursor(object)
	c.Enter()
	for name, more := c.Member(); more; name, more = c.Member() {
		switch string(name) {
		case "items":
			return c.Skip()
		case "auditID", "stage", "verb":
			return nil
		}
		c.Skip()
	}
	return nil
}

func (p *Parser) one(raw []byte, received time.Time, keep func(Record)) Tally {
	var e event
	switch verdict := e.read(raw); {
	case verdict == broken:
		return Tally{Broken: 1}
	case verdict == skipped || !p.wants(&e):
		return Tally{Skipped: 1}
	}
	r := e.record()
	r.Received = received
	r.Extra = nil
	for name, values := range e.requester().Extra {
		if slices.Contains(p.Extra, name) || slices.Contains(p.Extra, "*") {
			if r.Extra == nil {
				r.Extra = map[string][]string{}
			}
			r.Extra[short(name)] = shortAll(values)
		}
	}
	if p.Hide != nil {
		p.hide(&r)
	}
	keep(r)
	return Tally{Records: 1}
}

// wants reports whether the event is of a resource that is exported, and of a request that could have changed an object. A
// request that failed within the API server could have: it may have been written, and the answer lost.
func (p *Parser) wants(e *event) bool {
	if p.Wanted != nil && !p.Wanted(e.resource(), e.ObjectRef.Namespace) {
		return false
	}
	code := e.ResponseStatus.Code
	return p.All || !e.dryRun() && (code >= 200 && code < 300 || code >= 500 || code == 0)
}

func (p *Parser) hide(r *Record) {
	r.User = p.Hide(User, r.User)
	if r.Impersonated != "" {
		r.Impersonated = p.Hide(User, r.Impersonated)
	}
	for i, g := range r.Groups {
		r.Groups[i] = p.Hide(Group, g)
	}
	for i, a := range r.Addresses {
		r.Addresses[i] = p.Hide(Address, a)
	}
}
