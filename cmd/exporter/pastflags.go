package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change/moment"
	"kubecdc/internal/plain"
	"kubecdc/internal/suggest"
	"kubecdc/internal/usage"
	"kubecdc/observe"
	"kubecdc/query"
	"kubecdc/sinks"
)

// pastHelp is about what all commands share that ask the log about the past.
var pastHelp = `
RESOURCE is named as in KUBECDC_RESOURCES (pods, deployments.apps); the group may be
left out if the log has one such resource. The log is found by the settings of the
exporter. No API server is needed if KUBECDC_CLUSTER or a kubeconfig names the
cluster, and nothing is written.

A moment (TIME) is one of
` + endForms.Help() + `

There are two clocks. A time means when things happened: each stream is taken at its
last watermark by then, and the answer says which that is. With --clock logged it
means when the log got them.

The answer says on stderr from which resourceVersion on the log is complete. If
something may be missing at that moment, the command says what and fails; with
--incomplete it answers all the same. Updates that the settings ignore
(KUBECDC_IGNORE_FIELDS, KUBECDC_OPS) are not in the log.`

// pastFlags are the flags of the commands that ask about the past.
type pastFlags struct {
	namespace  string
	clock      string
	incomplete bool
	output     string
}

func (p *pastFlags) flags(c *cobra.Command, moment bool, outputs ...string) *cobra.Command {
	f := c.Flags()
	f.StringVarP(&p.namespace, "namespace", "n", "", "namespace of the objects")
	if moment {
		f.StringVar(&p.clock, "clock", "happened", "which clock times are by: happened or logged")
		f.BoolVar(&p.incomplete, "incomplete", false, "answer although something may be missing")
	}
	addOutput(c, &p.output, outputs...)
	return withSettings(c, ofLog)
}

// target reads a moment.
func (p *pastFlags) target(flag, text string) (query.Target, error) {
	if p.clock != "happened" && p.clock != "logged" {
		return query.Target{}, usage.Errorf("--clock is %q, and can be happened or logged", p.clock)
	}
	m, err := parseMoment(flag, text, endForms)
	return query.TargetOf(m, p.clock == "logged"), err
}

// parseMoment reads a moment that a flag or an argument names.
func parseMoment(name, text string, forms moment.Form) (moment.Moment, error) {
	m, err := forms.Parse(text, time.Now())
	if err != nil {
		return m, usage.Error(name + ": " + err.Error())
	}
	return m, nil
}

// resourceID finds the id of a resource that the log has.
func resourceID(ctx context.Context, r sinks.Reader, name string) (string, error) {
	all, err := r.Resources(ctx)
	if err != nil {
		return "", err
	}
	ids, err := suggest.Resources([]string{name}, all, "the log has no changes of")
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// object finds the namespace of one object: as with kubectl it is "default" if none is given and the resource has namespaces.
func (p *pastFlags) object(ctx context.Context, r sinks.Reader, resource string) (string, error) {
	namespaced, err := query.Namespaced(ctx, r, resource)
	switch {
	case err != nil:
		return "", err
	case !namespaced && p.namespace != "":
		return "", usage.Errorf("%s have no namespace: leave -n out", resource)
	case namespaced && p.namespace == "":
		return "default", nil
	}
	return p.namespace, nil
}

// printCoverage writes how far an answer is complete, and refuses it if something may be missing.
func (p *pastFlags) printCoverage(errs io.Writer, at query.Target, coverage []query.Coverage, missing []string) error {
	for _, c := range coverage {
		plain.Fprintf(errs, "# %s at %s", c.Stream, cmp.Or(string(c.At), "no resourceVersion"))
		if !c.AtTime.IsZero() {
			plain.Fprintf(errs, ", watermark of %s", c.AtTime.UTC().Format(time.RFC3339))
		}
		plain.Fprintf(errs, "; the log is complete from %s to %s\n", cmp.Or(string(c.Since), "nothing"), cmp.Or(string(c.UpTo), "nothing"))
	}
	if len(missing) == 0 {
		return nil
	}
	incomplete := &query.IncompleteError{Missing: missing}
	if !p.incomplete {
		return fmt.Errorf("%s: %w\n--incomplete answers all the same", at, incomplete)
	}
	plain.Fprintf(errs, "# %s\n", plain.Own(strings.ReplaceAll(plain.Lines(incomplete.Error()), "\n", "\n# ")))
	return nil
}

// terminal reports whether colours and progress are wanted there.
func terminal(w io.Writer) bool { return isTerminal(w) && os.Getenv("NO_COLOR") == "" }

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && observe.IsTerminal(f)
}

// notKept says what to do about a log that does not go back far enough.
func notKept(err error) error {
	if errors.Is(err, sinks.ErrNotKept) {
		return fmt.Errorf("%w: KUBECDC_KAFKA_HISTORY or KUBECDC_SINK_POSTGRES_HISTORY says how long the log keeps every change", err)
	}
	return err
}
