package schema

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/internal/suggest"
)

// Table is the input of a dialect: a resource, the type of its objects, and where its records are.
type Table struct {
	Resource change.Resource
	Object   *Type  // the type of its objects
	Prefix   string // the prefix of the topics
	Brokers  string // the brokers' addresses, for statements that name them
	Encoding string // KUBECDC_ENCODING, or empty for debezium
	Registry string // the registry's address, for statements that name it
}

// dialect is a program, or a schema language, for which the types are written.
type dialect struct {
	name  string
	write func(Table) (string, error)
	reads []string // encodings other than debezium
}

const avroEncoding = "avro"

var dialects = []dialect{
	{"flink", flink, []string{avroEncoding}}, {"flink-upsert", flinkUpsert, []string{avroEncoding, "object"}},
	// the Postgres sink has no encodings
	{"postgres", postgres, []string{"debezium-schema", "cloudevents", avroEncoding, "object"}},
	{"connect", connect, []string{"debezium-schema"}},
	{"avro", avro, []string{avroEncoding}}, {"spark", spark, nil},
}

func Dialects() (names []string) {
	for _, d := range dialects {
		names = append(names, d.name)
	}
	return names
}

// CheckDialect returns a fault.Usage if there is no such dialect.
func CheckDialect(name string) error {
	if slices.Contains(Dialects(), name) {
		return nil
	}
	return fault.Usagef("--as %q: no such program; %suse one of %s", name, suggest.DidYouMean(name, Dialects()),
		strings.Join(Dialects(), ", "))
}

// Write returns the statement or schema with which the dialect's program reads the table. The error is a fault.Usage.
func Write(name string, t Table) (string, error) {
	if err := CheckDialect(name); err != nil {
		return "", err
	}
	d := dialects[slices.IndexFunc(dialects, func(d dialect) bool { return d.name == name })]
	if read := append([]string{"", "debezium"}, d.reads...); !slices.Contains(read, t.Encoding) {
		return "", fault.Usagef("--as %s: it reads the records of KUBECDC_ENCODING=%s, and the settings have %s "+
			"(docs/encodings.md says what reads those)", name, strings.Join(read[1:], ", "), t.Encoding)
	}
	t.Brokers, t.Registry = cmp.Or(t.Brokers, "kafka-1:9092"), cmp.Or(t.Registry, "https://registry.example.com:8081")
	return d.write(t)
}

func (t *Table) topic() string { return change.Topic(t.Prefix, t.Resource) }

// name is the table's name: pods, deployments_apps.
func (t *Table) name() string { return strings.ReplaceAll(t.Resource.ID(), ".", "_") }

func (t *Table) title() string {
	return fmt.Sprintf("%s (%s), topic %s", t.Resource.ID(), t.Resource.APIVersion(), t.topic())
}

// hidden returns a paragraph about members that the columns can't show, because the schema does not name them. It returns nothing
// if there are none.
func hidden(object *Type) []string {
	open := openPaths(object)
	if len(open) == 0 {
		return nil
	}
	for i, path := range open {
		open[i] = cmp.Or(path, "the object itself")
	}
	return []string{"The schema allows members that it does not name, and no column shows them, in: " + strings.Join(open, ", ")}
}

//go:embed programs
var programs embed.FS

// fill returns a program's text, with a value in place of each {name}. text/template would make the program 10 MB larger, because
// the linker would retain every exported method of every type.
func fill(program string, namesAndValues ...string) string {
	text, err := programs.ReadFile("programs/" + program)
	if err != nil {
		panic(err) // the text is part of the program
	}
	for i := 0; i < len(namesAndValues); i += 2 {
		namesAndValues[i] = "{" + namesAndValues[i] + "}"
	}
	return strings.NewReplacer(namesAndValues...).Replace(string(text))
}

// comment puts the mark in front of each line of the paragraphs.
func comment(mark string, paragraphs ...string) string {
	var b strings.Builder
	for _, p := range paragraphs {
		line := mark
		for word := range strings.FieldsSeq(p) {
			if len(line) > len(mark) && len(line)+1+len(word) > lineWidth {
				b.WriteString(line + "\n")
				line = mark
			}
			line += " " + word
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// quote quotes a name or a text in SQL: q within it is doubled.
func quote(q, text string) string { return q + strings.ReplaceAll(text, q, q+q) + q }
