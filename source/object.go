package source

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

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

// parseObject finds the identity in raw. Only metadata is looked into; the rest is skipped over.
func parseObject(raw []byte) (object, error) {
	o := object{raw: raw}
	found := false
	f := fieldsOf(raw)
	for {
		key, value, ok := f.next()
		if !ok {
			break
		}
		switch string(key) {
		case "kind":
			o.typed = true
		case "metadata":
			found = true
			if err := o.parseMetadata(value); err != nil {
				return o, err
			}
		}
	}
	if f.err != nil {
		return o, fmt.Errorf("read an object: %w", f.err)
	}
	if !found || o.name == "" || o.uid == "" || !change.ValidVersion(o.version) {
		return o, fmt.Errorf("read an object: its metadata lacks name, uid or a numeric resourceVersion (name %q, uid %q, resourceVersion %q)",
			o.name, o.uid, o.version)
	}
	return o, nil
}

func (o *object) parseMetadata(raw []byte) error {
	f := fieldsOf(raw)
	for {
		key, value, ok := f.next()
		if !ok {
			return f.err
		}
		var target *string
		switch string(key) {
		case "name":
			target = &o.name
		case "namespace":
			target = &o.namespace
		case "uid":
			target = &o.uid
		case "resourceVersion":
			target = &o.version
		default:
			continue
		}
		if *target, ok = text(value); !ok {
			return fmt.Errorf("metadata.%s is not a string", key)
		}
	}
}

// checkJSON makes sure that the whole object is JSON: its bytes are spliced into records as they are, and a broken
// one would break the record for every consumer. 4.6 us for an object of 4 KB, a twentieth of what a change costs;
// the items of lists need no check, since jsontext has cut them out.
func (o *object) checkJSON() error {
	if jsontext.Value(o.raw).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		return nil
	}
	return fmt.Errorf("read an object: %w", errMalformed)
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
