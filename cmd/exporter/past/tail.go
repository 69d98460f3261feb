package past

import (
	"strconv"

	"github.com/spf13/cobra"

	"kubecdc/cmd/exporter/cli"
)

var tailHelp = `Show changes as the log gets them, as kubectl get --watch does, but of several
types, from any moment on, and with what each changed.

  exporter tail
  exporter tail -n 20
  exporter tail po,deploy -n shop -o diff
  exporter tail --since 2h --follow=false secrets
  exporter tail deploy --where 'op == "u" && before.spec.replicas > after.spec.replicas'
  exporter tail no -o jsonpath='{.name} {.op}'

Without --since the tail begins now; with -n 20 (--lines) it begins with the last 20
changes. json and yaml have before and after, too.
` + changesHelp

// namespaceOrLines is the flag -n of the command tail: a namespace, as in all commands, or how many changes, as in tail(1). The
// namespace of a number is still to be had by --where.
type namespaceOrLines struct{ *changes }

func (n namespaceOrLines) String() string { return "" }
func (n namespaceOrLines) Type() string   { return "string" }
func (n namespaceOrLines) Set(text string) error {
	if lines, err := strconv.ParseUint(text, 10, 31); err == nil {
		n.last = int(lines)
	} else {
		n.Namespace = text
	}
	return nil
}

func NewTail() *cobra.Command {
	t := &changes{follow: true}
	c := t.flags(&cobra.Command{Use: "tail " + cli.ObjectsUse + " [flags]", Short: "Show changes as the log gets them", Long: tailHelp},
		"table", "diff")
	c.Flags().BoolVar(&t.incomplete, "incomplete", false, "answer although something may be missing")
	c.Flags().IntVar(&t.last, "lines", 0, "begin with so many of the last changes; -n 20 does it too")
	n := c.Flags().Lookup("namespace")
	n.Value, n.Usage = namespaceOrLines{t}, n.Usage+"; a number is --lines"
	return c
}
