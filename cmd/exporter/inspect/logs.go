package inspect

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"kubecdc/cmd/exporter/cli"
	"kubecdc/config"
	"kubecdc/internal/plain"
	"kubecdc/setup"
)

const logsHelp = `List the logs in files on this machine, newest first.

Each cluster has one. A cluster that is created again under the same name, as with kind,
is another cluster: the name of its log has @ and the start of its uid. Commands read the
log of the cluster that the kubeconfig's context reaches, or the newest log with its
name. --cluster names another one. The log of a cluster that is gone is removed when
nothing was written to it for KUBECDC_SQLITE_HISTORY. The mirrors of topics in Kafka,
which exporter serve fills, are at the end of the list.

  exporter logs
  exporter history deploy --cluster kind-kind@3693f98c`

// NewLogs returns the command exporter logs.
func NewLogs() *cobra.Command {
	var out cli.Output
	c := cli.WithOutput(&cobra.Command{Use: "logs [flags]", Short: "List the logs in files of this machine", Long: logsHelp,
		Args: cli.Args(0, 0)}, &out)
	c.RunE = func(c *cobra.Command, _ []string) error {
		settings, _, err := config.Load(os.Environ(), c.Flags())
		if err != nil {
			return err
		}
		logs, err := setup.EmbeddedLogs(c.Context(), settings)
		mirrors, failed := setup.Mirrors(c.Context(), settings)
		if err = errors.Join(err, failed); err != nil {
			return err
		}
		logs = append(logs, mirrors...)
		return out.Print(c.OutOrStdout(), append([]setup.EmbeddedLog{}, logs...), func(t io.Writer) {
			plain.Fprintf(t, "CLUSTER\tUID\tWRITTEN\tSIZE\tFILE\n")
			for _, l := range logs {
				plain.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", l.Cluster, l.UID, l.Changed.Format(time.DateTime),
					humanize.IBytes(uint64(l.Bytes)), l.Path)
			}
		})
	}
	return c
}
