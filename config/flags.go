package config

import (
	"reflect"

	"github.com/spf13/pflag"
)

// AddFlags adds a flag for every setting, or for those that only selects. A flag holds only the text: Load parses it as it parses
// the environment, so both always mean the same.
func AddFlags(fs *pflag.FlagSet, only func(*Setting) bool) {
	for _, s := range all {
		if only != nil && !only(s) {
			continue
		}
		f := fs.VarPF(&text{kind: s.Kind()}, s.Flag, "", s.Help)
		f.DefValue = s.Default
		if s.typ == reflect.TypeFor[Switch]() {
			f.NoOptDefVal = "on" // --kafka-tls alone
		}
	}
}

type text struct{ value, kind string }

func (t *text) String() string     { return t.value }
func (t *text) Set(v string) error { t.value = v; return nil }
func (t *text) Type() string       { return t.kind }
