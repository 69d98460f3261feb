package sinktest

import (
	"context"
	"reflect"

	"kubecdc/sinks"
)

// Poisoned returns a reader of the same log. It overwrites a change as soon as visit has returned.
func Poisoned(r sinks.Reader) sinks.Reader { return poisoned{r} }

type poisoned struct{ sinks.Reader }

func (p poisoned) Changes(ctx context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	return p.Reader.Changes(ctx, q, func(l *sinks.Logged) error { return Visit(l, visit) })
}

// Visit calls visit with a copy of a change, and overwrites the copy's memory afterwards.
func Visit(l *sinks.Logged, visit func(*sinks.Logged) error) error {
	c := *l
	defer Own(&c)()
	return visit(&c)
}

// Own copies a change into its own memory, and returns a function that overwrites that. It finds the memory by reflection, so it
// covers new fields, too.
func Own(l *sinks.Logged) (spoil func()) {
	var owned []reflect.Value
	own(reflect.ValueOf(l).Elem(), &owned)
	return func() {
		for _, slice := range owned {
			for i := range slice.Len() {
				if element := slice.Index(i); element.Kind() == reflect.Uint8 {
					element.SetUint('X')
				} else {
					element.SetZero()
				}
			}
		}
	}
}

func own(v reflect.Value, owned *[]reflect.Value) {
	switch {
	case !v.CanSet():
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			own(v.Field(i), owned)
		}
	case v.Kind() == reflect.Slice && !v.IsNil():
		mine := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(mine, v)
		v.Set(mine)
		*owned = append(*owned, mine)
		for i := range mine.Len() {
			own(mine.Index(i), owned)
		}
	}
}
