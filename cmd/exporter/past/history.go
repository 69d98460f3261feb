package past

import (
	"github.com/spf13/cobra"

	"kubecdc/cmd/exporter/cli"
	"kubecdc/query"
)

var historyHelp = `Show every change of objects: when, what, and by whom.

  exporter history deploy web -n shop
  exporter history -A -l app=web --since 2h
  exporter history cm/app -n shop --follow
  exporter history no/worker-1 -o json | jq .patch
  exporter history --by alice --since 24h

Changes of several objects are in the order in which they happened. By whom: the user,
if the API server's audit events tell, and the field managers whose entry in the
object's managedFields changed. Nothing in an object tells who deleted it; the history
says if its owner or its namespace was deleted before, as far as the log has these. Without --since it begins where the log does.

An inferred change was found by comparing two states after a gap: it may stand for
several. Changes that are not in the log any more, and updates that the settings
ignore, are not shown; stderr says from which resourceVersion on the log has every
change.
` + changesHelp

func NewHistory() *cobra.Command {
	t := &changes{history: true, teller: query.Teller{Remember: true}}
	t.incomplete = true // a history has what there is
	c := &cobra.Command{Use: "history " + cli.ObjectsUse + " [flags]", Short: "Show every change of objects", Long: historyHelp}
	return t.flags(c, "diff", "table")
}
