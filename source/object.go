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
