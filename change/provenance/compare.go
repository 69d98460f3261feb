package provenance

import (
	"bytes"

	"kubecdc/internal/delta"
	"kubecdc/internal/rawjson"
)

// pair has two states of a value. If the value is in only one of them, the other cursor is at no value.
type pair struct{ was, now rawjson.Cursor }

func (p *pair) areObjects() bool { return p.was.AtObject() && p.now.AtObject() }

// equal passes both values. If they are equal, usually only the new one is parsed. Both are parsed if the other one was read back
// from a log in Avro, which has the members of objects in another order.
func (p *pair) equal() bool {
	now := p.now.Skip()
	return p.was.Pass(now) || rawjson.Same(p.was.Skip(), now)
}

// same passes everything that is left if it is equal in both states, or else the next value. It reads nothing after the first
// byte that differs.
func (p *pair) same() bool {
	was, now := p.was.Rest(), p.now.Rest()
	alike := delta.CommonPrefix(was, now)
	n := alike
	if alike < max(len(was), len(now)) {
		value := rawjson.NewCursor(now[:alike])
		if n = len(value.Skip()); n == alike {
			return false // the value may continue
		}
	}
	p.was.Advance(n)
	p.now.Advance(n)
	return true
}

// members calls visit for each member of two objects, or of one of them. visit must pass the values. The API server writes an
// object's members in the same order each time. So they are taken in pairs as long as their names are equal. After that, visit
// can stop by returning false.
func (p *pair) members(visit func(name []byte, p *pair) bool) {
	p.was.Enter()
	p.now.Enter()
	for {
		start := p.now
		name, more := p.now.Member()
		if !more && !p.was.Element() {
			break
		}
		if !more || !p.was.PassTo(p.now.Since(&start)) {
			p.now = start
			p.rest(visit)
			break
		}
		visit(name, p)
	}
	p.was.Leave()
	p.now.Leave()
}

// rest visits the remaining members, which may be in any order.
func (p *pair) rest(visit func(name []byte, p *pair) bool) {
	before, after := membersOf(&p.was), membersOf(&p.now)
	names := lookup{all: before}
	for _, m := range after {
		one := pair{now: rawjson.NewCursor(m.value)}
		if old := names.find(m.name); old != nil {
			one.was, old.seen = rawjson.NewCursor(old.value), true
		}
		if !visit(m.name, &one) {
			return
		}
	}
	for _, old := range before {
		if !old.seen && !visit(old.name, &pair{was: rawjson.NewCursor(old.value)}) {
			return
		}
	}
}

type member struct {
	name, value []byte
	seen        bool
}

// lookup finds members by name. It expects the next member after the last one found, and makes an index once it has compared
// many.
type lookup struct {
	all            []member
	next, compared int
	index          map[string]*member
}

func (l *lookup) find(name []byte) *member {
	const many = 1000
	if l.index == nil && l.compared > many {
		l.index = make(map[string]*member, len(l.all))
		for i := range l.all {
			l.index[string(l.all[i].name)] = &l.all[i]
		}
	}
	if l.index != nil {
		return l.index[string(name)]
	}
	for i := range l.all {
		l.compared++
		if m := &l.all[(l.next+i)%len(l.all)]; bytes.Equal(m.name, name) {
			l.next += i + 1
			return m
		}
	}
	return nil
}

func membersOf(c *rawjson.Cursor) (all []member) {
	for name, more := c.Member(); more; name, more = c.Member() {
		all = append(all, member{name: name, value: c.Skip()})
	}
	return all
}
