package inspect

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"kubecdc/ask"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/config"
	"kubecdc/sinks"
	"kubecdc/verify"
)

const verifyHelp = `Compare the log with the cluster, object by object.

Each collection is listed at one resourceVersion, the log's present position. It is
compared with
  topic       the last record of each key up to that position (KUBECDC_SINK=kafka)
  table       the rows of kubecdc_log.objects (KUBECDC_SINK=postgres)
  changes     the last change of each object in kubecdc_log.changes
  inventory   each object in the checkpoint

The command prints each object that is
  missing     only in the cluster
  stale       there in another version, or as another object of that name
  extra       only in the log or the checkpoint
  changed     there in this version with other content (not checked in the inventory)
  apart       on several partitions: "exporter replay" to other topics puts its key on one
Then the exit code is 1, as it is if batches or changes were removed from the middle of a
log in SQLite or Postgres. It is above 1 if the comparison fails. An exporter may run
meanwhile: newer changes are left out, and differences are compared a second time.

BEHIND is the time since the log was last known to be complete, by an event or a bookmark.
The API server sends a bookmark each minute, so if BEHIND grows, no exporter runs.
IGNORED counts objects that are older only because updates are ignored
(KUBECDC_IGNORE_FIELDS, KUBECDC_OPS). With --identities only metadata is listed, and
contents are not compared.

With --repair the running exporter writes what differs: a create, update or delete
of each such object, marked as inferred, with "repair:ID" of the signal as its gap.
Its before-image is the checkpoint's object, or null. Then all is compared again.

  exporter verify
  exporter verify po,deploy -o json
  exporter verify --repair

-o name prints only the names of objects that differ, and -o wide all of them in the
table.
` + cli.TypesHelp

// NewVerify returns the command exporter verify.
func NewVerify() *cobra.Command {
	var out cli.Output
	c := cli.WithSettings(cli.WithOutput(&cobra.Command{Use: "verify [TYPE[,TYPE...]] [flags]",
		Short: "Compare the log with the cluster",
		Long:  verifyHelp, Args: cli.Args(0, 1), Annotations: cli.Compares}, &out, "wide", "name"), cli.OfVerify)
	var o cli.Objects
	o.Flags(c, "")
	identities := c.Flags().Bool("identities", false, "Compare uids and resourceVersions only, and not what objects contain.")
	repair := c.Flags().Bool("repair", false, "Let the running exporter write what differs.")
	c.RunE = func(c *cobra.Command, args []string) error {
		types, err := cli.ParseTypes(c, args)
		if err != nil {
			return err
		}
		if err := o.Check(); err != nil {
			return err
		}
		return verifyCopies(c, &out, ask.Verification{Resources: types, Namespace: o.Namespace, Identities: *identities,
			Repair: *repair})
	}
	return c
}

func verifyCopies(c *cobra.Command, out *cli.Output, v ask.Verification) error {
	settings, connection, _, err := config.Read(os.Environ(), c.Flags())
	if err != nil {
		return err
	}
	a := ask.New(settings, connection, c.OutOrStdout(), c.ErrOrStderr())
	defer a.Close()
	all, err := a.Verify(c.Context(), v)
	hole, hasHole := errors.AsType[*sinks.Hole](err)
	if err != nil && !hasHole {
		return err
	}
	if err := printVerified(c.OutOrStdout(), out, all); err != nil {
		return err
	}
	if hasHole {
		return cli.Differs(hole.Error())
	}
	if n := verify.Differing(all); n > 0 {
		return cli.ObjectsDiffer(n)
	}
	if i := slices.IndexFunc(all, func(r verify.Result) bool { return r.In != "" && r.Problem != "" }); i >= 0 {
		return fmt.Errorf("the %s of %s was not compared: %s", all[i].In, all[i].Stream, all[i].Problem)
	}
	return nil
}
