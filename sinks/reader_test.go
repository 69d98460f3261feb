package sinks_test

import (
	"reflect"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/internal/slab"
	"kubecdc/sinks"
	"kubecdc/test/sinktest"
)

// A clone has all that a change has, and remains unchanged when the memory of the change is used again.
func TestACloneIsDeep(t *testing.T) {
	var l sinks.Logged
	fill(t, "Logged", reflect.ValueOf(&l).Elem())
	want := l
	want.Slab = nil // After is not in the slab any more
	sinktest.Own(&want)
	shared := l
	spoil := sinktest.Own(&shared)
	c := shared.Clone()
	spoil()
	if !reflect.DeepEqual(c, want) {
		t.Errorf("the clone is\n%+v\nwant\n%+v", c, want)
	}
}

// fill sets each exported field. A kind of field that a clone must copy in another way is an error.
func fill(t *testing.T, name string, v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(7, 7)))
		return
	case *change.Stream: // immutable
		v.Set(reflect.ValueOf(change.ParseStream("pods")))
		return
	case *slab.Slab:
		v.Set(reflect.New(v.Type().Elem()))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				fill(t, name+"."+field.Name, v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range v.Len() {
			fill(t, name, v.Index(i))
		}
	case reflect.String:
		v.SetString(name)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(7)
	default:
		t.Errorf("%s is a %s: say here and in Clone how that is copied", name, v.Type())
	}
}
