// Package redact hides what of an object may not be told: the contents of Secrets, and fields that the settings name. It
// turns an object's bytes into others, and knows neither where they come from nor where they go.
package redact

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Mode says how much of an object is told.
type Mode string

// The modes. In all but Plain the annotation that kubectl apply keeps the whole object in is left out.
const (
	Plain    Mode = "plain"    // as it came
	Fields   Mode = "fields"   // all but the fields named
	Hash     Mode = "hash"     // a Secret, its values as hashes
	Metadata Mode = "metadata" // kind, apiVersion and metadata
)

// Rules are what holds for the objects of one resource.
type Rules struct {
	Cluster  string
	Resource string // as change.Resource.ID gives it
	Mode     Mode
	Fields   []Path // hidden besides
	Key      Key
}

// Redactor applies the rules of one resource. It is safe for concurrent use.
type Redactor struct {
	rules Rules
	roots []*node
}

// New makes a redactor; nil where nothing is to be hidden.
func New(rules Rules) *Redactor {
	if rules.Mode == Plain && len(rules.Fields) > 0 {
		rules.Mode = Fields
	}
	if rules.Mode == Plain {
		return nil
	}
	rules.Fields = slices.Clone(rules.Fields)
	slices.SortFunc(rules.Fields, func(a, b Path) int { return strings.Compare(a.text, b.text) })
	r := &Redactor{rules: rules, roots: []*node{lastApplied}}
	switch rules.Mode {
	case Hash:
		r.roots = append(r.roots, secret)
	case Metadata:
		r.roots = append(r.roots, metadataOnly)
	}
	if len(rules.Fields) > 0 {
		r.roots = append(r.roots, fields(rules.Fields))
	}
	return r
}

// String tells the rules, without the key: two redactors that tell the same hide the same, by the same hashes. It is empty
// for nil.
func (r *Redactor) String() string {
	if r == nil {
		return ""
	}
	text := string(r.rules.Mode)
	if r.rules.Mode != Metadata || len(r.rules.Fields) > 0 { // there are hashes
		text += " key=" + r.rules.Key.id()
	}
	for _, p := range r.rules.Fields {
		text += fmt.Sprintf(" %q", p.text)
	}
	return text
}

// ErrMalformed: the object is no JSON. The error quotes nothing of it.
var ErrMalformed = errors.New("not a JSON object")

// Apply gives the object as it may be told; all that is not hidden stays byte for byte. object is the object's namespace
// and name, as change.ObjectKey joins them. A nil redactor gives raw itself.
func (r *Redactor) Apply(object string, raw []byte) ([]byte, error) {
	return r.apply(object, raw, false)
}

// Again is Apply for what may have been through a redactor before: what looks like a hash of ours stays as it is. In the
// data of a Secret nothing else can look like one; a field that the settings name could.
func (r *Redactor) Again(object string, raw []byte) ([]byte, error) {
	return r.apply(object, raw, true)
}

func (r *Redactor) apply(object string, raw []byte, again bool) ([]byte, error) {
	if r == nil {
		return raw, nil
	}
	w := newWalk(r, object, raw, again)
	w.object(r.roots)
	return w.end()
}

// Describe tells of bytes that can't be read without showing them.
func (r *Redactor) Describe(raw []byte) string {
	return fmt.Sprintf(`{"withheld":true,"bytes":%d,"hash":%q}`, len(raw), r.sum("", nil, kindMalformed, raw))
}
