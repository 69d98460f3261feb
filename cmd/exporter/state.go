package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/internal/plain"
	"kubecdc/internal/usage"
	"kubecdc/query"
	"kubecdc/sinks"
)

var stateHelp = `Show what objects were at a moment, from the log alone.

  exporter state --at 2h deployments.apps -n shop
  exporter state --at 2h deployments.apps web -n shop -o yaml | kubectl diff -f -
  exporter state --at 123456 configmaps -o json

Without -n it shows all namespaces; one object (NAME) is looked for in the namespace
default. yaml and json are ready for kubectl diff and kubectl apply: they leave out
status, and what the server sets (managedFields, resourceVersion, uid, generation,
creationTimestamp). With --full objects are as they were.
` + pastHelp

func newState() *cobra.Command {
	p, at, full := &pastFlags{}, "", false
	c := &cobra.Command{
		Use:   "state --at TIME RESOURCE [NAME] [flags]",
		Short: "Show what objects were at a moment",
		Long:  stateHelp,
		Args:  argCount(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if at == "" {
				return usage.Error("state needs --at: a time, how long ago (2h), a resourceVersion, a checkpoint, or now")
			}
			return p.state(c.Context(), c, at, full, args)
		},
	}
	c.Flags().StringVar(&at, "at", "", "the moment")
	c.Flags().BoolVar(&full, "full", false, "whole objects, with status and what the server sets")
	return p.flags(c, true, "table", "yaml", "json")
}

func (p *pastFlags) state(ctx context.Context, c *cobra.Command, at string, full bool, args []string) error {
	q := query.Question{Namespace: p.namespace}
	target, err := p.target("--at", at)
	if err != nil {
		return err
	}
	reader, err := openReader(ctx, c)
	if err != nil {
		return err
	}
	defer reader.Close()
	resource, err := resourceID(ctx, reader, args[0])
	if err != nil {
		return err
	}
	if q.Resources = []string{resource}; len(args) == 2 {
		q.Name = args[1]
		if q.Namespace, err = p.object(ctx, reader, resource); err != nil {
			return err
		}
	}
	states, err := readStates(ctx, c, reader, q, target)
	if err != nil {
		return err
	}
	state := states[0]
	if err := p.printCoverage(c.ErrOrStderr(), state.At, state.Coverage, state.Missing); err != nil {
		return err
	}
	if q.Name != "" && state.Len() == 0 {
		return fmt.Errorf("%s %s did not exist at %s", resource, q.Name, target)
	}
	w := bufio.NewWriter(c.OutOrStdout())
	err = p.writeState(w, state, full, q.Name != "")
	return cmp.Or(err, w.Flush())
}

// readStates reads states, and shows on a terminal how much of the log was read.
func readStates(ctx context.Context, c *cobra.Command, r sinks.Reader, q query.Question, at ...query.Target) ([]*query.State, error) {
	show := newProgress(c.ErrOrStderr(), "reading", 0, nil)
	q.Progress = show.at
	states, err := query.ReadStates(ctx, r, q, at...)
	show.end()
	return states, notKept(err)
}

func (p *pastFlags) writeState(w *bufio.Writer, state *query.State, full, one bool) error {
	switch p.output {
	case "table":
		return stateTable(w, state)
	case "yaml":
		return state.Objects(func(o *query.Object) error {
			body, err := shown(o.Body, full)
			if err != nil {
				return err
			}
			if !one {
				plain.Fprintf(w, "---\n")
			}
			text, err := indented(p.output, json.RawMessage(body))
			if err != nil {
				return err
			}
			return write(w, text)
		})
	}
	separator := `{"apiVersion":"v1","kind":"List","items":[`
	err := state.Objects(func(o *query.Object) error {
		body, err := shown(o.Body, full)
		if !one {
			plain.Fprintln(w, separator)
			separator = ","
		}
		if err != nil {
			return err
		}
		return write(w, plain.Own(plain.JSON(body)))
	})
	if !one && separator != "," {
		plain.Fprintf(w, "%s", separator)
	}
	if !one {
		plain.Fprintf(w, "]}")
	}
	plain.Fprintf(w, "\n")
	return err
}

func stateTable(out io.Writer, state *query.State) error {
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	plain.Fprintf(t, "NAMESPACE\tNAME\tRESOURCEVERSION\tLOGGED\n")
	err := state.Objects(func(o *query.Object) error {
		plain.Fprintf(t, "%s\t%s\t%s\t%s\n", o.Namespace, o.Name, o.ResourceVersion, o.Logged.UTC().Format(time.RFC3339))
		return nil
	})
	if err != nil {
		return err
	}
	return t.Flush()
}

// serverSet are the members of metadata that the API server sets.
var serverSet = []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"}

// shown is an object without its status and what the server sets; all of it with full.
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
	delete(object, "status")
	if metadata, ok := object["metadata"].(map[string]any); ok {
		for _, name := range serverSet {
			delete(metadata, name)
		}
	}
	return json.Marshal(object)
}
