package redact

import "kubecdc/internal/rawjson"

// Mask compares objects without the fields that do not count.
type Mask struct{ redactor *Redactor }

// NewMask returns a mask of the fields, and of those that the API server changes with each update.
func NewMask(paths []Path) *Mask {
	return &Mask{&Redactor{roots: []*node{bookkeeping, fields(paths, drop)}}}
}

var bookkeeping = &node{named: map[string]*node{"metadata": {named: map[string]*node{
	"managedFields": {do: drop}, "resourceVersion": {do: drop}, "generation": {do: drop}}}}}

func (m *Mask) Counts(object []byte) ([]byte, error) { return m.redactor.Apply("", object) }

func (m *Mask) Equal(a, b []byte) bool {
	first, err1 := m.Counts(a)
	second, err2 := m.Counts(b)
	return err1 == nil && err2 == nil && rawjson.Same(first, second)
}
