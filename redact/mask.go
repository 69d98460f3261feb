package redact

import "kubecdc/internal/rawjson"

// Mask compares objects without the fields that do not count.
type Mask struct{ redactor *Redactor }

// NewMask returns a mask that leaves out the fields at the paths, and the fields that the API server changes with each update.
func NewMask(paths []Path) *Mask {
	return &Mask{&Redactor{roots: []*node{bookkeeping, fields(paths, drop)}}}
}

var bookkeeping = &node{named: map[string]*node{"metadata": {named: map[string]*node{
	"managedFields": {do: drop}, "resourceVersion": {do: drop}, "generation": {do: drop}}}}}

// Counts returns the object without the fields that the mask leaves out.
func (m *Mask) Counts(object []byte) ([]byte, error) { return m.redactor.Apply("", object) }

// Equal reports whether the mask leaves the same of two objects. It returns false if one of them is malformed.
func (m *Mask) Equal(a, b []byte) bool {
	first, err1 := m.Counts(a)
	second, err2 := m.Counts(b)
	return err1 == nil && err2 == nil && rawjson.Same(first, second)
}
