package source

import (
	"fmt"

	"kubecdc/change"
)

// object is one object as the server sent it, with the four fields that the protocol needs found in it.
type object struct {
	raw       []byte
	namespace string
	name      string
	uid       string
	version   string
	typed     bool // has kind and apiVersion: always in watch events, not in the items of built-in lists
}

func (o *object) key() string { return change.ObjectKey(o.namespace, o.name) }

// parseObject finds the identity in raw, and makes sure that raw is JSON and nothing else: its bytes are spliced into
// records as they are, and a broken one would break the record for every consumer.
func parseObject(raw []byte) (object, error) {
	s := scanner{b: raw}
	o := object{}
	o.scan(&s)
	if !s.atEnd() {
		s.fail()
	}
	return o, o.check(s.ok())
}

// scan reads the object that comes next. Only metadata is looked into; the rest is skipped over.
func (o *object) scan(s *scanner) {
	start := s.i
	for name, more := s.first(); more; name, more = s.next() {
		switch {
		case string(name) == "kind":
			o.typed = true
			s.skip()
		case string(name) == "metadata" && s.atObject():
			o.scanMetadata(s)
		default:
			s.skip()
		}
	}
	if s.ok() {
		o.raw = s.b[skipSpace(s.b, start):s.i]
	}
}

func (o *object) scanMetadata(s *scanner) {
	for name, more := s.first(); more; name, more = s.next() {
		var target *string
		switch string(name) {
		case "name":
			target = &o.name
		case "namespace":
			target = &o.namespace
		case "uid":
			target = &o.uid
		case "resourceVersion":
			target = &o.version
		}
		value := s.skip()
		if target != nil {
			*target, _ = text(value) // what is no string is as good as missing
		}
	}
}

// check says what is wrong with an object that was scanned; wellFormed is whether it is JSON.
func (o *object) check(wellFormed bool) error {
	if !wellFormed {
		return fmt.Errorf("read an object: %w", errMalformed)
	}
	if o.name == "" || o.uid == "" || !change.ValidVersion(o.version) {
		return fmt.Errorf("read an object: its metadata lacks name, uid or a numeric resourceVersion (name %q, uid %q, resourceVersion %q)",
			o.name, o.uid, o.version)
	}
	return nil
}

// withType returns the object's bytes with kind and apiVersion in front, as watch events have them: the items of
// a built-in resource's list come without.
func (o *object) withType(r *change.Resource) []byte {
	if o.typed {
		return o.raw
	}
	rest := o.raw[1:]
	head := `{"kind":"` + r.Kind + `","apiVersion":"` + r.APIVersion() + `"`
	if i := skipSpace(rest, 0); i < len(rest) && rest[i] != '}' {
		head += ","
	}
	out := make([]byte, 0, len(head)+len(rest))
	return append(append(out, head...), rest...)
}
