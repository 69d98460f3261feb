package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"kubecdc/internal/suggest"
)

// checkTags checks each given setting against the tags values, min and max.
func (l *loader) checkTags() {
	for _, s := range all {
		if !l.set(s.Env) {
			continue
		}
		switch {
		case len(s.Values) > 0:
			l.checkValues(s)
		case s.Min != "" || s.Max != "":
			l.checkBounds(s)
		}
	}
}

func (l *loader) checkValues(s *Setting) {
	given := l.values[s.Env]
	if slices.Contains(s.Values, given) {
		return
	}
	near := cmp.Or(suggest.Name(given, s.Values), s.Default)
	fix := "use one of " + strings.Join(s.Values, ", ")
	if near != "" {
		fix = "use " + near + "; allowed are " + strings.Join(s.Values, ", ")
	}
	l.add(s.Env, "not an allowed value", fix)
}

func (l *loader) checkBounds(s *Setting) {
	v := number(s.value(l.c))
	if s.Min != "" && v < s.parse(s.Min) {
		l.add(s.Env, "too small", "use "+s.article()+s.bounds()+s.orDefault())
	}
	if s.Max != "" && v > s.parse(s.Max) {
		l.add(s.Env, "too large", "use "+s.article()+s.bounds()+s.orDefault())
	}
}

func number(v reflect.Value) float64 {
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

// parse reads a bound in the notation of the setting's type.
func (s *Setting) parse(bound string) float64 {
	var b Bytes
	var err error
	var n float64
	switch s.typ {
	case reflect.TypeFor[time.Duration](), reflect.TypeFor[History]():
		var d time.Duration
		d, err = time.ParseDuration(bound)
		n = float64(d)
	case reflect.TypeFor[Bytes]():
		err = b.UnmarshalText([]byte(bound))
		n = float64(b)
	default:
		n, err = strconv.ParseFloat(bound, 64)
	}
	if err != nil {
		panic(fmt.Sprintf("config: bound %q of %s: %v", bound, s.Env, err))
	}
	return n
}

func (s *Setting) article() string { return "a " + s.Kind() }

func (s *Setting) bounds() string {
	switch {
	case s.Min != "" && s.Max != "":
		return " from " + s.Min + " to " + s.Max
	case s.Min != "":
		return " of at least " + s.Min
	}
	return ""
}

func (s *Setting) orDefault() string {
	if s.Default == "" {
		return ""
	}
	return "; the default is " + s.Default
}

// checkWith warns of settings that have no effect because of the value of another setting. It also finds missing settings that
// are required. A required setting without a value was forgotten. A variable may be meant for another command, but a flag for
// another sink asks of another log.
func (l *loader) checkWith() {
	for _, s := range all {
		name, allowed, _ := strings.Cut(s.With, "=")
		if name == "" || l.bad[name] {
			continue
		}
		values, now := strings.Split(allowed, ","), byEnv[name].value(l.c).String()
		switch applies := s.applies(l.c); {
		case applies && s.required && s.value(l.c).Len() == 0:
			l.add(s.Env, "not set, but "+name+" is "+now, "set it, such as "+s.Example)
		case applies || !l.set(s.Env):
		case now == "":
			l.add(name, "not set, but "+s.Env+" is", "set it to "+strings.Join(values, " or "))
		case name == "KUBECDC_SINK" && l.flags != nil && l.flags.Changed(s.Flag) && l.flags.Lookup(byEnv[name].Flag) != nil:
			l.add(s.Env, "no effect while "+name+" is "+now, "add --"+byEnv[name].Flag+" "+strings.Join(values, " or ")+
				", or leave --"+s.Flag+" out")
		default:
			l.warn(s.Env + " has no effect while " + name + " is " + now + ": it is for " + name + "=" +
				strings.Join(values, " or "))
		}
	}
}
