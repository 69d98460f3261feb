package inspect

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"kubecdc/ask"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/config"
	"kubecdc/verify"
)

const verifyHelp = `Compare what the log has with the cluster, object by object.

Each collection is listed as it was at one resourceVersion, the position that the log
has now, and compared with:
  topic       the last record of each key up to there (KUBECDC_SINK=kafka)
  table       the rows of kubecdc_log.objects (KUBECDC_SINK=postgres)
  changes     the last change of each object in kubecdc_log.changes
  inventory   what the checkpoint holds of each object
Objects that are missing there, stale (another version, or another object of that
name), extra, changed (the right version with another content; not looked for in the
inventory) or apart (on several partitions: "exporter replay" to other topics puts
each key on one) are printed, and the exit code is 1; it is above 1 if they can't be
compared. An exporter may run meanwhile: newer changes are left out, and what differs is looked at
twice. BEHIND is how long ago the log was last known to be complete, by an event or a
bookmark, of which the API server sends one a minute: if it grows, no exporter runs.
With --identities only metadata is listed, and no content compared. IGNORED are
objects that are older there only since updates are ignored (KUBECDC_IGNORE_FIELDS,
KUBECDC_OPS).

With --repair the running exporter writes what differs: a create, update or delete
of each such object, marked as inferred, with "repair:ID" of the signal as its gap.
Its before is what the checkpoint holds of the object, or null. Then all is compared
again.

  exporter verify
  exporter verify po,deploy -o json
  exporter verify --repair

-o name prints only which objects differ, and -o wide all of them in the table.
` + cli.TypesHelp

// NewVerify returns the command exporter verify.
func NewVerify() *cobra.Command {
	var out cli.Output
	c := cli.WithSettings(cli.WithOutput(&cobra.Command{Use: "verify [TYPE[,TYPE...]] [flags]", Short: "Compare what the log has with the cluster",
		Long: verifyHelp, Args: cli.Args(0, 1), Annotations: cli.Compares}, &out, "wide", "name"), cli.OfVerify)
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
		return verifyCopies(c, &out, ask.Verification{Resources: types, Namespace: o.Namespace, Identities: *identities, Repair: *repair})
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
	if err != nil {
		return err
	}
	if err := printVerified(c.OutOrStdout(), out, all); err != nil {
		return err
	}
	if n := verify.Differing(all); n > 0 {
		return cli.ObjectsDiffer(n)
	}
	if i := slices.IndexFunc(all, func(r verify.Result) bool { return r.In != "" && r.Problem != "" }); i >= 0 {
		return fmt.Errorf("the %s of %s was not compared: %s", all[i].In, all[i].Stream, all[i].Problem)
	}
	return nil
}
