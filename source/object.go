package source

import (
	"fmt"
	"strconv"
	"strings"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/redact"
)

// object is one object as the server sent it, with the four fields that the protocol needs found in it.
type object struct {
	raw       []byte
	joined    string // namespace and name, as change.ObjectKey joins them; empty: not known
	namespace string
	name      string
	uid       string
	version   string
	typed     bool // has kind and apiVersion: always in watch events, not in the items of built-in lists
}

func (o *object) key() string {
	if o.joined != "" {
		return o.joined
	}
	return change.ObjectKey(o.namespace, o.name)
}

// parseObject finds the identity in raw, and makes sure that raw is JSON and nothing else: its bytes are spliced into
// records as they are, and a broken one would break the record for every consumer.
func parseObject(raw []byte) (object, error) {
	s := rawjson.New(raw)
	o := object{}
	o.scan(&s)
	if !s.AtEnd() {
		s.Fail()
	}
	return o, o.check(s.OK())
}

// scan reads the object that comes next. Only metadata is looked into; the rest is skipped over.
func (o *object) scan(s *rawjson.Scanner) {
	start := s.Offset()
	for name, more := s.First(); more; name, more = s.Next() {
		switch {
		case string(name) == "kind":
			o.typed = true
			s.Skip()
		case string(name) == "metadata" && s.AtObject():
			o.scanMetadata(s)
		default:
			s.Skip()
		}
	}
	o.raw = s.Since(start)
}

func (o *object) scanMetadata(s *rawjson.Scanner) {
	var found rawIdentity
	for name, more := s.First(); more; name, more = s.Next() {
		var target *[]byte
		switch string(name) {
		case "name":
			target = &found.name
		case "namespace":
			target = &found.namespace
		case "uid":
			target = &found.uid
		case "resourceVersion":
			target = &found.version
		}
		value := s.Skip()
		if target != nil {
			*target = value
		}
	}
	o.identify(&found)
}

// rawIdentity is what scanMetadata finds, raw; what is no string is as good as missing.
type rawIdentity struct{ namespace, name, uid, version []byte }

// identify copies the identity, as one text in which all that is asked for lies.
func (o *object) identify(r *rawIdentity) {
	namespace, ok1 := rawjson.PlainText(r.namespace)
	name, ok2 := rawjson.PlainText(r.name)
	uid, ok3 := rawjson.PlainText(r.uid)
	version, ok4 := rawjson.PlainText(r.version)
	if !(ok1 && ok2 && ok3 && ok4) {
		o.namespace, _ = rawjson.Text(r.namespace)
		o.name, _ = rawjson.Text(r.name)
		o.uid, _ = rawjson.Text(r.uid)
		o.version, _ = rawjson.Text(r.version)
		return
	}
	var room [400]byte // 63 of a namespace, 253 of a name, 36 of a uid, and the version
	b := append(room[:0], namespace...)
	if len(namespace) > 0 {
		b = append(b, '/')
	}
	b = append(b, name...)
	key := len(b)
	b = append(append(b, uid...), version...)
	all := string(b)
	o.joined, o.namespace, o.name = all[:key], all[:len(namespace)], all[key-len(name):key]
	o.uid, o.version = all[key:key+len(uid)], all[key+len(uid):]
}

// check says what is wrong with an object that was scanned; wellFormed is whether it is JSON.
func (o *object) check(wellFormed bool) error {
	if !wellFormed {
		return fmt.Errorf("read an object: %w", rawjson.ErrMalformed)
	}
	if o.name == "" || o.uid == "" || !change.ValidVersion(o.version) {
		return fmt.Errorf("read an object: %w", &lackingError{o.name, o.uid, o.version})
	}
	return nil
}

// tell makes the object's bytes what is told of it: the one place where they go from the API server to the log. After an
// error they are as they came.
func (o *object) tell(redactor *redact.Redactor, r *change.Resource) error {
	if redactor != nil {
		told, err := redactor.Apply(o.key(), o.raw)
		if err != nil {
			return fmt.Errorf("redact an object: %w", err)
		}
		o.raw = told
	}
	o.raw = o.withType(r)
	return nil
}

// lackingError: an object without one of the three. Without a name it is no object (errNameless); without the others it
// may be one that can't be followed (errUnsupported).
type lackingError struct{ name, uid, version string }

func (e *lackingError) Error() string {
	return fmt.Sprintf("its metadata lacks name, uid or a numeric resourceVersion (name %q, uid %q, resourceVersion %s)", e.name, e.uid, quoteVersion(e.version))
}

// quoteVersion quotes what stands in the place of a resourceVersion, if it looks at all like one: nothing else of an object
// is to get into an error.
func quoteVersion(version string) string {
	if strings.Trim(version, "0123456789/:.,_-") != "" {
		return fmt.Sprintf("of %d bytes", len(version))
	}
	return strconv.Quote(version)
}

func (e *lackingError) Is(target error) bool {
	return target == errNameless && e.name == "" || target == errUnsupported && e.name != ""
}

// withType returns the object's bytes with kind and apiVersion in front, as watch events have them: the items of
// a built-in resource's list come without.
func (o *object) withType(r *change.Resource) []byte {
	if o.typed {
		return o.raw
	}
	rest := o.raw[1:]
	head := `{"kind":"` + r.Kind + `","apiVersion":"` + r.APIVersion() + `"`
	if i := rawjson.SkipSpace(rest, 0); i < len(rest) && rest[i] != '}' {
		head += ","
	}
	out := make([]byte, 0, len(head)+len(rest))
	return append(append(out, head...), rest...)
}
