package redact

import "bytes"

// Mask compares objects without the fields that do not count.
type Mask struct{ redactor *Redactor }

// NewMask returns a mask of the fields, and of those that the API server changes with each update.
func NewMask(paths []Path) *Mask {
	return &Mask{&Redactor{roots: []*node{bookkeeping, fields(paths, drop)}}}
}

var bookkeeping = &node{named: map[string]*node{"metadata": {named: map[string]*node{
	"managedFields": {do: drop}, "resourceVersion": {do: drop}, "generation": {do: drop}}}}}

// Equal reports whether two objects differ in nothing that counts.
func (m *Mask) Equal(a, b []byte) bool {
	first, err1 := m.redactor.Apply("", a)
	second, err2 := m.redactor.Apply("", b)
	return err1 == nil && err2 == nil && bytes.Equal(first, second)
}
