package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
)

// Output is the flag -o.
type Output struct {
	Format string
	path   *jsonpath.JSONPath // for the format jsonpath
}

// WithOutput adds the flag -o to a command. The formats are table (the default), json, yaml and jsonpath, and the names in
// more.
func WithOutput(c *cobra.Command, o *Output, more ...string) *cobra.Command {
	o.Flag(c, append([]string{"table", "json", "yaml", JSONPath}, more...)...)
	return c
}

// JSONPath is the format with an expression.
const JSONPath = "jsonpath"

// Flag adds the flag, with the first of the formats as its default.
func (o *Output) Flag(c *cobra.Command, formats ...string) {
	all := strings.Replace(strings.Join(formats, ", "), JSONPath, "jsonpath={...}", 1)
	c.Flags().StringVarP(&o.Format, "output", "o", formats[0], "output format: "+all)
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	c.PreRunE = func(*cobra.Command, []string) error {
		format, expression, found := strings.Cut(o.Format, "=")
		if !slices.Contains(formats, format) || found != (format == JSONPath) {
			return fault.Usagef("-o %s: the output is one of %s", o.Format, all)
		}
		if o.Format = format; !found {
			return nil
		}
		o.path = jsonpath.New("-o").AllowMissingKeys(true)
		if err := o.path.Parse(expression); err != nil {
			return fault.Usagef("-o jsonpath=%s: %v: write it as for kubectl, such as {.metadata.name}", expression, err)
		}
		return nil
	}
}

// Print writes a value in the selected format: JSON, YAML, the result of a path, or a table.
func (o *Output) Print(out io.Writer, value any, table func(io.Writer)) error {
	if o.Format == "json" || o.Format == "yaml" || o.Format == JSONPath {
		text, err := o.Indented(value)
		if err == nil {
			err = Write(out, text)
		}
		return err
	}
	t := screen.NewTable(out)
	table(t)
	return t.Flush()
}

// Document returns a value as one of several: a YAML document, or a line of JSON. Texts of objects are unchanged.
func (o *Output) Document(value any) (plain.Own, error) {
	switch o.Format {
	case "yaml":
		text, err := o.Indented(value)
		return "---\n" + text, err
	case JSONPath:
		return o.Indented(value)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return plain.Own(plain.JSON(b.Bytes())), err
}

// Indented returns a value as YAML, as JSON of many lines, or the result of a path. A value with control characters is written as
// JSON, which is also YAML. YAML has no escapes outside of quotes, and its package refuses some characters.
func (o *Output) Indented(value any) (plain.Own, error) {
	switch o.Format {
	case JSONPath:
		return o.evaluate(value)
	case "yaml":
		if text, err := yaml.Marshal(value); err == nil && plain.Lines(string(text)) == string(text) {
			return plain.Own(text), nil
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(o.Format == "json")
	e.SetIndent("", "  ")
	err := e.Encode(value)
	return plain.Own(plain.JSON(b.Bytes())), err
}

// evaluate returns the result of the path in a value as a line. Line ends of the template remain, those in values are escaped.
func (o *Output) evaluate(value any) (plain.Own, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	var decoded any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&decoded); err != nil {
		return "", err
	}
	var b strings.Builder
	if err := o.path.Execute(&b, harmless(decoded)); err != nil {
		return "", err
	}
	return plain.Own(strings.TrimSuffix(b.String(), "\n") + "\n"), nil
}

// harmless escapes all texts within a value. It converts numbers so that expressions can compare them.
func harmless(value any) any {
	switch v := value.(type) {
	case string:
		return plain.Escape(v)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if n, err := v.Float64(); err == nil {
			return n
		}
		return v.String()
	case []any:
		for i := range v {
			v[i] = harmless(v[i])
		}
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, value := range v {
			all[plain.Escape(name)] = harmless(value)
		}
		return all
	}
	return value
}

// Write writes text that was made before, as it is. When such text was made, characters from objects that a terminal obeys were
// escaped.
func Write(out io.Writer, text plain.Own) error {
	_, err := io.WriteString(out, string(text))
	return err
}
