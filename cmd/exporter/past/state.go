package past

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
	"kubecdc/query"
	"kubecdc/query/timeline"
	"kubecdc/restore"
	"kubecdc/sinks"
)

var stateHelp = `Show objects as they were at a moment, from the log alone.

  exporter state --at 2h deploy -n shop
  exporter state --at 2026-11-22 deploy/web -n shop -o yaml | kubectl diff -f -
  exporter state --at 123456 cm -o jsonpath='{.items[*].metadata.name}'

yaml and json are ready for kubectl diff and kubectl apply: they leave out
status, and what the server sets (managedFields, resourceVersion, uid, generation,
creationTimestamp). With --full objects are complete.
` + pastHelp

// NewState returns the command exporter state.
func NewState() *cobra.Command {
	p, moment, full := &pastFlags{}, "", false
	c := &cobra.Command{
		Use:     "state [--at TIME] TYPE[,TYPE...] [NAME...] | TYPE/NAME... [flags]",
		Short:   "Show what objects were at a moment",
		Aliases: []string{"get"},
		Long:    stateHelp,
		Args:    cli.Args(1, math.MaxInt),
		RunE: forEach(func() (question, *pastFlags) {
			own := *p
			return func(ctx context.Context, c *cobra.Command, args []string) error {
				return own.state(ctx, c, moment, full, args)
			}, &own
		}, new(bool)),
	}
	c.Flags().StringVar(&moment, "at", "now", "the moment: a time, how long ago (2h), a resourceVersion, or a checkpoint")
	c.Flags().BoolVar(&full, "full", false, "complete objects, with status and what the server sets")
	p.moments(c)
	return p.flags(c, "table", "wide", "name", "yaml", "json", cli.JSONPath)
}

func (p *pastFlags) state(ctx context.Context, c *cobra.Command, moment string, full bool, args []string) error {
	target, err := p.target("--at", moment)
	if err != nil {
		return err
	}
	reader, objects, err := p.open(ctx, c, args)
	if err != nil {
		return err
	}
	defer reader.Close()
	states, err := readStates(ctx, c, reader, objects, target)
	if err != nil {
		return err
	}
	state := states[0]
	p.remarkMoment(c.ErrOrStderr(), "--at", moment, target, state.Moment)
	if err := p.printCoverage(c.ErrOrStderr(), state.Moment, state.Coverage, state.Missing); err != nil {
		return err
	}
	out, end := p.page(c.OutOrStdout(), false)
	count, answered := 0, map[string]bool{}
	if err := state.Objects(answers(&count, answered)); err != nil {
		return err
	}
	if len(objects.Names) > 0 && count == 0 {
		text := fmt.Sprintf("%s did not exist at %s%s", strings.Join(objects.Names, ", "), state.Moment,
			inNamespace(objects.Namespace))
		return notFound(ctx, reader, &objects, state.Coverage, text)
	}
	if count == 0 {
		if err := checkKnown(ctx, reader, &objects, state.Coverage, answered); err != nil {
			return err
		}
	}
	s := &stateWriter{pastFlags: p, w: bufio.NewWriter(out), full: full, namesTypes: len(objects.Resources) > 1,
		isOne: len(objects.Names) == 1 && count == 1}
	if err := s.write(state); err != nil {
		return err
	}
	if err := s.w.Flush(); err != nil {
		return err
	}
	if err := end(); err != nil || count == 0 {
		return err
	}
	return checkKnown(ctx, reader, &objects, state.Coverage, answered)
}

// answers counts the objects of an answer, and adds their names.
func answers(count *int, answered map[string]bool) func(*query.Object) error {
	return func(o *query.Object) error {
		*count++
		answered[o.Resource+"/"+o.Name] = true
		return nil
	}
}

// readStates reads states. On a terminal it shows how much of the log was read.
func readStates(ctx context.Context, c *cobra.Command, r sinks.Reader, objects sinks.Objects,
	moments ...timeline.Target) ([]*query.State, error) {
	show := cli.NewProgress(c.ErrOrStderr(), "reading", 0, nil)
	states, err := query.ReadStates(ctx, r, query.Question{Objects: objects, Progress: show.Report}, moments...)
	show.End()
	return states, err
}

type stateWriter struct {
	*pastFlags
	w          *bufio.Writer
	full       bool
	namesTypes bool // names have their type
	isOne      bool // the question is one object, not a list
}

func (s *stateWriter) write(state *query.State) error {
	switch s.Format {
	case "table", "wide":
		return s.table(state)
	case "name":
		return state.Objects(func(o *query.Object) error {
			_, err := plain.Fprintf(s.w, "%s/%s\n", o.Resource, o.Name)
			return err
		})
	case "yaml":
		return state.Objects(s.document)
	case cli.JSONPath:
		return s.path(state)
	}
	return s.list(state)
}

func (s *stateWriter) document(o *query.Object) error {
	body, err := shown(o.Body, s.full)
	if err != nil {
		return err
	}
	if !s.isOne {
		plain.Fprintf(s.w, "---\n")
	}
	text, err := s.Indented(json.RawMessage(body))
	if err == nil {
		err = cli.Write(s.w, text)
	}
	return err
}

// path prints the result of the path in the object, or in the list of all objects.
func (s *stateWriter) path(state *query.State) error {
	var all bytes.Buffer
	out := s.w
	s.w = bufio.NewWriter(&all)
	if err := s.list(state); err != nil {
		return err
	}
	if err := s.w.Flush(); err != nil {
		return err
	}
	s.w = out
	return s.Print(out, json.RawMessage(all.Bytes()), nil)
}

func (s *stateWriter) list(state *query.State) error {
	separator := `{"apiVersion":"v1","kind":"List","items":[`
	err := state.Objects(func(o *query.Object) error {
		body, err := shown(o.Body, s.full)
		if !s.isOne {
			plain.Fprintln(s.w, separator)
			separator = ","
		}
		if err != nil {
			return err
		}
		return cli.Write(s.w, plain.Own(plain.JSON(body)))
	})
	if !s.isOne && separator != "," {
		plain.Fprintf(s.w, "%s", separator)
	}
	if !s.isOne {
		plain.Fprintf(s.w, "]}")
	}
	plain.Fprintf(s.w, "\n")
	return err
}

func (s *stateWriter) table(state *query.State) error {
	t := screen.NewTable(s.w)
	more := plain.Own("")
	if s.Format == "wide" {
		more = "\tUID"
	}
	if s.screen != nil {
		plain.Fprintf(t, "NAMESPACE\tNAME\tLAST CHANGE LOGGED\n")
	} else {
		plain.Fprintf(t, "NAMESPACE\tNAME\tRESOURCEVERSION\tLOGGED%s\n", more)
	}
	now := time.Now()
	err := state.Objects(func(o *query.Object) error {
		name := o.Name
		if s.namesTypes {
			name = o.Resource + "/" + name
		}
		if s.Format == "wide" {
			more = plain.Sprintf("\t%s", o.UID)
		}
		if s.screen != nil {
			plain.Fprintf(t, "%s\t%s\t%s\n", o.Namespace, name, screen.Clock(o.Logged, now))
			return nil
		}
		plain.Fprintf(t, "%s\t%s\t%s\t%s%s\n", o.Namespace, name, o.ResourceVersion, o.Logged.UTC().Format(time.RFC3339), more)
		return nil
	})
	if err != nil {
		return err
	}
	return t.Flush()
}

// shown returns an object without its status and the fields that the server sets. With full it returns the complete object.
func shown(body []byte, full bool) ([]byte, error) {
	if full {
		return body, nil
	}
	object := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&object); err != nil {
		return nil, fmt.Errorf("decode an object: %w", err)
	}
	restore.WithoutServerSet(object)
	return json.Marshal(object)
}

// inNamespace returns " in namespace NAME", or "" without a namespace.
func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return fmt.Sprintf(" in namespace %q", namespace)
}
