package apiclient

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/internal/slab"
	"kubecdc/redact"
)

// Object is one object as the server sent it, and the four of its fields that the watch protocol needs.
type Object struct {
	Raw       []byte
	Slab      *slab.Slab         // holds Raw. nil: Raw has memory of its own, or is valid until the next call
	Room      func(n int) []byte // gives Prepare memory; nil: it takes its own
	joined    string             // the key, if one string has namespace and name, else empty
	Namespace string
	Name      string
	UID       string
	Version   change.ResourceVersion
	typed     bool // has kind and apiVersion: always in watch events, not in the items of built-in lists
}

// Key returns the object's key, as change.ObjectKey joins it.
func (o *Object) Key() string {
	if o.joined != "" {
		return o.joined
	}
	return change.ObjectKey(o.Namespace, o.Name)
}

// ParseObject finds the identity in raw and checks that raw is one JSON object and nothing else. Its bytes go into records as
// they are, so a malformed object would make the record malformed.
func ParseObject(raw []byte) (Object, error) {
	s := rawjson.New(raw)
	o := Object{}
	o.scan(&s)
	if !s.AtEnd() {
		s.Fail()
	}
	if !s.OK() {
		return o, errObject
	}
	return o, o.Check()
}

// errObject reports that something is no JSON object.
var errObject = fmt.Errorf("read an object: %w", rawjson.ErrMalformed)

// scan reads the next object into o, and overwrites what o had. It skips everything but metadata.
func (o *Object) scan(s *rawjson.Scanner) {
	*o = Object{}
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
	o.Raw = s.Since(start)
}

func (o *Object) scanMetadata(s *rawjson.Scanner) {
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

// rawIdentity has the raw values that scanMetadata finds. A value that is not a string counts as missing.
type rawIdentity struct{ namespace, name, uid, version []byte }

// identify copies the identity into one string, and slices key, namespace, name, uid and version out of it.
func (o *Object) identify(r *rawIdentity) {
	namespace, ok1 := rawjson.PlainText(r.namespace)
	name, ok2 := rawjson.PlainText(r.name)
	uid, ok3 := rawjson.PlainText(r.uid)
	version, ok4 := rawjson.PlainText(r.version)
	if !(ok1 && ok2 && ok3 && ok4) {
		o.Namespace, _ = rawjson.Text(r.namespace)
		o.Name, _ = rawjson.Text(r.name)
		o.UID, _ = rawjson.Text(r.uid)
		text, _ := rawjson.Text(r.version)
		o.Version = change.ResourceVersion(text)
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
	o.joined, o.Namespace, o.Name = all[:key], all[:len(namespace)], all[key-len(name):key]
	o.UID, o.Version = all[key:key+len(uid)], change.ResourceVersion(all[key+len(uid):])
}

// maxName is the maximum length of a name in bytes. kube-apiserver accepts at most 253 bytes, and for RBAC's roles and bindings
// any number. An index of Postgres, which the checkpoint and a sink have on the key, accepts about 2,700 bytes in a row.
const maxName = 1024

// Check returns an error if the object lacks what the protocol needs: a name, a uid, a version that can be compared.
func (o *Object) Check() error {
	if o.Name == "" || o.UID == "" || !o.Version.Valid() {
		return fmt.Errorf("read an object: %w", &lackingError{o.Name, o.UID, string(o.Version)})
	}
	if !utf8.ValidString(o.Name) {
		return fmt.Errorf("read an object: %w", ErrName) // in a record's key it would be another one
	}
	if len(o.Name) > maxName {
		return fmt.Errorf("read an object: %w: it has %d bytes, and kubecdc accepts %d", ErrName, len(o.Name), maxName)
	}
	return nil
}

// Prepare redacts the object's bytes and adds kind and apiVersion where they are missing. It is the one place where bytes go
// from the API server to the log. After an error the bytes are as they came.
func (o *Object) Prepare(redactor *redact.Redactor, r *change.Resource) error {
	if redactor != nil {
		redacted, err := redactor.Apply(o.Key(), o.Raw)
		if err != nil {
			return fmt.Errorf("redact an object: %w", err)
		}
		o.Raw = redacted
	}
	o.Raw = o.withType(r)
	return nil
}

// lackingError reports an object without name, uid or version. Without a name it is not an object (ErrName). Without uid or
// version its resource may be one that can't be exported (ErrUnsupported).
type lackingError struct{ name, uid, version string }

func (e *lackingError) Error() string {
	return fmt.Sprintf("its metadata lacks name, uid or a numeric resourceVersion (name %.300q, uid %.300q, resourceVersion %s)",
		e.name, e.uid, quoteVersion(e.version))
}

// quoteVersion quotes a resourceVersion if it may be one, since no other part of an object may get into an error.
func quoteVersion(version string) string {
	if strings.Trim(version, "0123456789/:.,_-") != "" {
		return fmt.Sprintf("of %d bytes", len(version))
	}
	return strconv.Quote(version)
}

func (e *lackingError) Is(target error) bool {
	return target == ErrName && e.name == "" || target == ErrUnsupported && e.name != ""
}

// withType returns the object's bytes with kind and apiVersion in front, as watch events have them. The items of a built-in
// resource's list come without.
func (o *Object) withType(r *change.Resource) []byte {
	if o.typed {
		return o.Raw
	}
	rest := o.Raw[1:]
	head := `{"kind":"` + r.Kind + `","apiVersion":"` + r.APIVersion() + `"`
	if i := rawjson.SkipSpace(rest, 0); i < len(rest) && rest[i] != '}' {
		head += ","
	}
	room := func(n int) []byte { return make([]byte, 0, n) }
	if o.Room != nil {
		room = o.Room
	}
	return append(append(room(len(head)+len(rest)), head...), rest...)
}
