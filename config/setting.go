package config

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Setting is one setting, as the tags of Config describe it.
type Setting struct {
	Env     string
	Flag    string // without the dashes: KUBECDC_KAFKA_BROKERS is kafka-brokers
	Group   string
	Default string
	Help    string
	Example string
	Values  []string // the allowed values, if they are few
	Min     string
	Max     string
	With    string // NAME=VALUE,…: it has an effect with one of these values of another setting

	required bool // with these values
	typ      reflect.Type
	index    []int // the field's index, from Config
}

// Secret reports whether the value must not appear in messages.
func (s *Setting) Secret() bool {
	return s.typ == reflect.TypeFor[Secret]() || s.typ == reflect.TypeFor[DSN]()
}

// Kind names the notation of a value.
func (s *Setting) Kind() string {
	switch {
	case len(s.Values) > 0:
		return strings.Join(s.Values, "|")
	case s.typ == reflect.TypeFor[time.Duration]():
		return "duration"
	case s.typ == reflect.TypeFor[History]():
		return "duration|forever"
	case s.typ == reflect.TypeFor[Bytes]():
		return "size"
	case s.typ == reflect.TypeFor[Quota]():
		return "size|off"
	case s.typ == reflect.TypeFor[Switch]():
		return "on|off"
	case s.typ == reflect.TypeFor[List]():
		return "list"
	case s.typ == reflect.TypeFor[DSN]():
		return "url"
	case s.typ.Kind() == reflect.Int, s.typ.Kind() == reflect.Float64:
		return "number"
	}
	return "text"
}

// applies reports whether the setting has an effect with the other settings.
func (s *Setting) applies(c *Config) bool {
	name, values, ok := strings.Cut(s.With, "=")
	return !ok || slices.Contains(strings.Split(values, ","), byEnv[name].value(c).String())
}

func (s *Setting) value(c *Config) reflect.Value {
	return reflect.ValueOf(c).Elem().FieldByIndex(s.index)
}

// Settings returns every setting, in the order of Config.
func Settings() []*Setting { return all }

var all, byEnv, order = describe()

func describe() (list []*Setting, byEnv map[string]*Setting, order map[string]int) {
	byEnv, order = map[string]*Setting{}, map[string]int{}
	for _, group := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		for _, field := range reflect.VisibleFields(group.Type) {
			s := newSetting(group, field)
			byEnv[s.Env], order[s.Env] = s, len(list)
			list = append(list, s)
		}
	}
	return list, byEnv, order
}

func newSetting(group, field reflect.StructField) *Setting {
	tag := field.Tag
	s := &Setting{
		Env: tag.Get("env"), Default: tag.Get("envDefault"), Help: tag.Get("help"), Example: tag.Get("example"),
		Min: tag.Get("min"), Max: tag.Get("max"), With: cmp.Or(tag.Get("with"), group.Tag.Get("with")),
		required: tag.Get("required") != "",
		Group:    group.Tag.Get("group"), typ: field.Type, index: append(append([]int{}, group.Index...), field.Index...),
	}
	if v := tag.Get("values"); v != "" {
		s.Values = strings.Split(v, ",")
	}
	s.Flag = flagName(s.Env)
	return s
}

func flagName(env string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(env, prefix)), "_", "-")
}

const prefix = "KUBECDC_"
