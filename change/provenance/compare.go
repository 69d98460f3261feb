package provenance

import (
	"bytes"

	"kubecdc/internal/delta"
	"kubecdc/internal/rawjson"
)

// pair has two states of a value, or one: the other cursor is at no value.
type pair struct{ was, is rawjson.Cursor }

func (p *pair) areObjects() bool { return p.was.AtObject() && p.is.AtObject() }

// equal passes both values. Of values that are equal only the new one is read, unless the other one was read back from a log in Avro,
// which has the members of objects in another order.
func (p *pair) equal() bool {
	is := p.is.Skip()
	return p.was.Pass(is) || rawjson.Same(p.was.Skip(), is)
}

// same passes what both states have alike: all that is left, or else the value that comes next. It reads nothing behind the first byte
// that differs.
func (p *pair) same() bool {
	was, is := p.was.Rest(), p.is.Rest()
	alike := delta.CommonPrefix(was, is)
	n := alike
	if alike < max(len(was), len(is)) {
		value := rawjson.At(is[:alike])
		if n = len(value.Skip()); n == alike {
			return false // it may go on
		}
	}
	p.was.Advance(n)
	p.is.Advance(n)
	return true
}

// members calls visit before each member of two objects, or of one of them; visit must pass the values. The API server
// writes the members of an object in the same order each time, so they are taken in pairs as long as their names are equal. After
// that visit can end it by returning false.
func (p *pair) members(visit func(name []byte, p *pair) bool) {
	p.was.Enter()
	p.is.Enter()
	for {
		start := p.is
		name, more := p.is.Member()
		if !more && !p.was.Element() {
			break
		}
		if !more || !p.was.PassTo(p.is.Since(&start)) {
			p.is = start
			p.rest(visit)
			break
		}
		visit(name, p)
	}
	p.was.Leave()
	p.is.Leave()
}

// rest visits the members that are left, which may be in any order.
func (p *pair) rest(visit func(name []byte, p *pair) bool) {
	before, after := membersOf(&p.was), membersOf(&p.is)
	names := lookup{all: before}
	for _, m := range after {
		one := pair{is: rawjson.At(m.value)}
		if old := names.find(m.name); old != nil {
			one.was, old.seen = rawjson.At(old.value), true
		}
		if !visit(m.name, &one) {
			return
		}
	}
	for _, old := range before {
		if !old.seen && !visit(old.name, &pair{was: rawjson.At(old.value)}) {
			return
		}
	}
}

type member struct {
	name, value []byte
	seen        bool
}

// lookup finds members by name, mostly each behind the one before. It makes an index once it has compared many.
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
