package main

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"kubecdc/internal/plain"
	"kubecdc/internal/usage"
)

// output is the flag -o of commands that print a table.
type output struct{ format string }

// withOutput adds the flag to a command that prints a table, or in one of some more formats.
func withOutput(c *cobra.Command, o *output, more ...string) *cobra.Command {
	addOutput(c, &o.format, append([]string{"table", "json", "yaml"}, more...)...)
	return c
}

// addOutput adds the flag -o, with the first of the formats as its default.
func addOutput(c *cobra.Command, format *string, formats ...string) {
	c.Flags().StringVarP(format, "output", "o", formats[0], outputHelp(formats...))
	c.PreRunE = func(*cobra.Command, []string) error {
		if slices.Contains(formats, *format) {
			return nil
		}
		return usage.Errorf("-o %s: the output is one of %s", *format, strings.Join(formats, ", "))
	}
}

// outputHelp explains the flag -o.
func outputHelp(formats ...string) string {
	last := len(formats) - 1
	return "output format: " + strings.Join(formats[:last], ", ") + " or " + formats[last]
}

// print writes a value as JSON or YAML, or a table of it.
func (o *output) print(out io.Writer, value any, table func(io.Writer)) error {
	if o.format != "table" {
		text, err := indented(o.format, value)
		if err == nil {
			err = write(out, text)
		}
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	table(t)
	return t.Flush()
}

// document is a value as a YAML document, or as a line of JSON, in which the texts of objects stay as they are.
func document(format string, value any) (plain.Own, error) {
	if format == "yaml" {
		text, err := indented(format, value)
		return "---\n" + text, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return plain.Own(plain.JSON(b.Bytes())), err
}

// indented is a value as YAML, or as JSON of many lines. YAML has no escapes outside of quotes, and its package refuses some
// characters, so a value with characters that a terminal obeys is written as JSON, which is YAML too.
func indented(format string, value any) (plain.Own, error) {
	if format == "yaml" {
		if text, err := yaml.Marshal(value); err == nil && plain.Lines(string(text)) == string(text) {
			return plain.Own(text), nil
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(format == "json")
	e.SetIndent("", "  ")
	err := e.Encode(value)
	return plain.Own(plain.JSON(b.Bytes())), err
}

// write is the one way out for text that was made before: whatever others have written in it is escaped.
func write(out io.Writer, text plain.Own) error {
	_, err := io.WriteString(out, string(text))
	return err
}
