// Package redact hides the parts of an object that must not be exported: the contents of Secrets, and the fields that the
// settings name. It rewrites an object's bytes, and knows neither where they come from nor where they go.
package redact

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Mode is how much of an object is exported.
type Mode string

// The modes. All but Plain leave out the annotation in which kubectl apply stores the complete object.
const (
	Plain    Mode = "plain"    // all of it
	Fields   Mode = "fields"   // all, with the named fields as hashes
	Hash     Mode = "hash"     // a Secret with its values as hashes
	Metadata Mode = "metadata" // kind, apiVersion and metadata
)

// Rules are the settings for the objects of one resource.
type Rules struct {
	Cluster         string
	Resource        string // as change.Resource.ID gives it
	Mode            Mode
	Fields          []Path // hidden in addition
	NoManagedFields bool   // metadata.managedFields are left out
	Key             Key
}

// Redactor applies the rules of one resource. It is safe for concurrent use.
type Redactor struct {
	rules Rules
	roots []*node
}

// New returns a redactor, or nil if the rules hide nothing.
func New(rules Rules) *Redactor {
	if rules.Mode == Plain && len(rules.Fields) > 0 {
		rules.Mode = Fields
	}
	if rules.Mode == Plain && !rules.NoManagedFields {
		return nil
	}
	rules.Fields = slices.Clone(rules.Fields)
	slices.SortFunc(rules.Fields, func(a, b Path) int { return strings.Compare(a.text, b.text) })
	r := &Redactor{rules: rules}
	if rules.NoManagedFields {
		r.roots = append(r.roots, noManagedFields)
	}
	if r.Hides() {
		r.roots = append(r.roots, lastApplied)
	}
	switch rules.Mode {
	case Hash:
		r.roots = append(r.roots, secret)
	case Metadata:
		r.roots = append(r.roots, metadataOnly)
	}
	if len(rules.Fields) > 0 {
		r.roots = append(r.roots, fields(rules.Fields, hashJSON), noOwnedFields)
	}
	return r
}

// String describes the rules without showing the key: redactors with equal descriptions hide the same parts by the same
// hashes. It is empty for nil.
func (r *Redactor) String() string {
	if r == nil {
		return ""
	}
	text := string(r.rules.Mode)
	if r.rules.NoManagedFields {
		text += " without managedFields"
	}
	if r.Hides() && r.rules.Mode != Metadata || len(r.rules.Fields) > 0 { // there are hashes
		text += " key=" + r.rules.Key.id()
	}
	for _, p := range r.rules.Fields {
		text += fmt.Sprintf(" %q", p.text)
	}
	return text
}

// Hides reports whether the redactor keeps something secret. Otherwise it only makes objects smaller.
func (r *Redactor) Hides() bool { return r != nil && r.rules.Mode != Plain }

// ErrMalformed reports text that is not a JSON object. It quotes nothing of the text.
var ErrMalformed = errors.New("not a JSON object")

// Apply returns the object without what the rules hide. All other bytes are unchanged. object is the object's namespace and name,
// as change.ObjectKey joins them. A nil redactor returns raw itself.
func (r *Redactor) Apply(object string, raw []byte) ([]byte, error) {
	return r.apply(object, raw, false)
}

// Again is Apply for an object that a redactor may already have redacted. It does not change a value that has the form of a
// hash from Apply. In the data of a Secret only hashes have that form. In a field that the settings name, a value with that
// form would remain unhidden.
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

// Describe describes bytes that can't be parsed, by size and hash.
func (r *Redactor) Describe(raw []byte) string {
	return fmt.Sprintf(`{"withheld":true,"bytes":%d,"hash":%q}`, len(raw), r.sum("", nil, kindMalformed, raw))
}
