package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/spf13/pflag"
)

// Load reads the settings from environment ("NAME=value", as os.Environ gives it) and from the flags of AddFlags
// (may be nil), which win, and checks all of them. The warnings are for the log and do not stop the program.
// The error is always an *Error.
func Load(environment []string, flags *pflag.FlagSet) (c *Config, warnings []string, err error) {
	l := load(environment, flags)
	if err := l.err(); err != nil {
		return nil, l.warnings, err
	}
	return l.c, l.warnings, nil
}

// Read reads the settings like Load, and finds the cluster like Source.Connect, without opening a connection. Its *Error has
// the problems of the kubeconfig too. It returns the warnings even with an error.
func Read(environment []string, flags *pflag.FlagSet) (c *Config, conn *Connection, warnings []string, err error) {
	l := load(environment, flags)
	if conn, err = l.c.Source.Connect(); err == nil {
		l.checkServer(conn)
	}
	if wrong, ok := errors.AsType[*Error](err); ok {
		l.problems = append(wrong.Problems, l.problems...)
	}
	if err := l.err(); err != nil {
		return nil, nil, l.warnings, err
	}
	return l.c, conn, l.warnings, nil
}

func load(environment []string, flags *pflag.FlagSet) *loader {
	l := &loader{values: env.ToMap(environment), bad: map[string]bool{}, c: &Config{}}
	l.warnUnknown()
	l.overlay(flags)
	if name, set := l.values["KUBECDC_CLUSTER"]; set {
		l.values["KUBECDC_CLUSTER"] = strings.TrimSpace(name) // a file's name ends with a newline, and would be another cluster
	}
	l.parse()
	l.checkTags()
	l.validate()
	return l
}

func (l *loader) err() error {
	if len(l.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(l.problems, func(a, b Problem) int { return order[a.Setting] - order[b.Setting] })
	return &Error{Problems: l.problems}
}

type loader struct {
	values   map[string]string // by name in the environment
	c        *Config
	problems []Problem
	bad      map[string]bool // settings that already have a problem
	flags    *pflag.FlagSet  // nil: there are none
	warnings []string
}

// overlay replaces values of the environment by the flags that were given.
func (l *loader) overlay(flags *pflag.FlagSet) {
	if l.flags = flags; flags == nil {
		return
	}
	for _, s := range all {
		if f := flags.Lookup(s.Flag); f != nil && f.Changed {
			l.values[s.Env] = f.Value.String()
		}
	}
}

// parse reads group by group, since the library's error has only the name of the field, which is unique within a group.
func (l *loader) parse() {
	groups := reflect.ValueOf(l.c).Elem()
	for i := range groups.NumField() {
		err := env.ParseWithOptions(groups.Field(i).Addr().Interface(), env.Options{Environment: l.values})
		if all, ok := errors.AsType[env.AggregateError](err); ok {
			for _, e := range all.Errors {
				l.parseError(groups.Type().Field(i), e)
			}
		}
	}
}

func (l *loader) parseError(group reflect.StructField, err error) {
	pe, ok := errors.AsType[env.ParseError](err)
	if !ok {
		panic("config: " + err.Error()) // a tag of Config is wrong
	}
	field, _ := group.Type.FieldByName(pe.Name)
	s := byEnv[field.Tag.Get("env")]
	what, fix := notParsed(s)
	l.add(s.Env, what, fix)
}

func notParsed(s *Setting) (what, fix string) {
	switch s.typ {
	case reflect.TypeFor[time.Duration]():
		return "not a duration", "write a number with its unit, such as 500ms, 10s, 5m or 24h" + s.orDefault()
	case reflect.TypeFor[History]():
		return "neither a duration nor forever", "write a number with its unit, such as 168h, or forever" + s.orDefault()
	case reflect.TypeFor[Bytes]():
		return "not a size", "write a number of bytes, or with a unit: 65536, 512KiB, 8MiB" + s.orDefault()
	case reflect.TypeFor[Quota]():
		return "neither a size nor off", "write a number of bytes, or with a unit, such as 1GiB, or off" + s.orDefault()
	case reflect.TypeFor[Switch]():
		return "neither on nor off", "use on or off" + s.orDefault()
	}
	return "not a number", "use a number" + s.bounds() + s.orDefault()
}

// add records a problem. Only the first error of a setting counts, since the others follow from it. But each bad entry of a list
// counts.
func (l *loader) add(name, what, fix string) {
	s := byEnv[name]
	if s == nil {
		panic("config: no setting is called " + name)
	}
	if l.bad[name] && s.typ != reflect.TypeFor[List]() {
		return
	}
	l.bad[name] = true
	value := l.values[name]
	if s.Secret() {
		value = ""
	}
	l.problems = append(l.problems, Problem{Setting: name, Value: redactValue(value), What: what, Fix: fix})
}

func (l *loader) warn(text string) { l.warnings = append(l.warnings, text) }

func (l *loader) set(name string) bool { return l.values[name] != "" }
