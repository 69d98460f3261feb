package inspect

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/config"
	"kubecdc/export/plan"
	"kubecdc/internal/plain"
	"kubecdc/rbac"
	"kubecdc/setup"
	"kubecdc/source/discovery"
)

const rbacHelp = `Print a ServiceAccount with the rights that these settings need, and no others. With
--user the rights are for a user, such as the one of your kubeconfig.

These are list and watch on the resources of KUBECDC_RESOURCES, in the namespaces of
KUBECDC_NAMESPACES if it is set; rights to see which resources are installed and
removed; and get on namespace kube-system, whose uid identifies the cluster.

Full names (pods, deployments.apps) need no cluster. A pattern becomes the resources
that the API server serves now, without Secrets. For resources that are installed later,
print the rights again. Or use --aggregate, and grant list and watch in a ClusterRole
with the label kubecdc/aggregate-to-exporter: "true".

  exporter rbac --resources pods,deployments.apps
  exporter rbac --user alice | kubectl apply -f -
  exporter rbac --resources '*' --namespace cdc --aggregate | kubectl apply -f -`

// NewRBAC returns the command exporter rbac.
func NewRBAC() *cobra.Command {
	var a rbac.Account
	var out cli.Output
	var policy bool
	c := cli.WithSettings(&cobra.Command{Use: "rbac [flags]", Short: "Print the roles that the settings need", Long: rbacHelp,
		Args: cli.Args(0, 0)}, nil)
	c.Flags().StringVar(&a.Name, "name", "kubecdc", "`name` of the ServiceAccount and of the roles")
	c.Flags().StringVarP(&a.Namespace, "namespace", "n", "kubecdc", "`namespace` of the ServiceAccount")
	c.Flags().StringVar(&a.User, "user", "", "bind this `user`, by the API server's name of it, and not a ServiceAccount")
	c.Flags().BoolVar(&a.Aggregate, "aggregate", false,
		"also bind a ClusterRole that collects the rules of labelled ClusterRoles")
	c.Flags().BoolVar(&policy, "audit-policy", false,
		"print the ValidatingAdmissionPolicy for audit events instead (docs/who.md)")
	out.Flag(c, "yaml", "json")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if policy {
			a.User = ""
			return writeObjects(c.OutOrStdout(), &out, a.AuditPolicy())
		}
		return printRBAC(c, a, &out)
	}
	return c
}

func printRBAC(c *cobra.Command, a rbac.Account, out *cli.Output) error {
	settings, _, err := config.Load(os.Environ(), c.Flags())
	if err != nil {
		return err
	}
	planned, err := setup.ExportConfig(settings)
	if err != nil {
		return err
	}
	streams, err := streamsToGrant(c, planned)
	if err != nil {
		return err
	}
	a.Reviews = settings.HTTP.Access == "kubernetes"
	return writeObjects(c.OutOrStdout(), out, a.Objects(streams))
}

// streamsToGrant returns the streams that the settings select. It asks the API server if names alone are not enough.
func streamsToGrant(c *cobra.Command, planned plan.Config) (streams []*change.Stream, err error) {
	served, named := discovery.Named(planned.Resources)
	if !named {
		if served, err = cli.ServedNow(c, setup.RequestLimit); err != nil {
			return nil, fmt.Errorf("find out which resources KUBECDC_RESOURCES stands for (full names need no cluster: pods, "+
				"deployments.apps): %w", err)
		}
	}
	selected, unknown := discovery.Select(planned.Resources, served)
	if len(unknown) > 0 {
		return nil, discovery.Unknown(unknown, served)
	}
	for _, r := range selected {
		streams = append(streams, planned.StreamsOf(r)...)
	}
	return streams, nil
}

// writeObjects writes Kubernetes objects for kubectl apply -f.
func writeObjects(w io.Writer, out *cli.Output, objects []rbac.Object) error {
	if out.Format == "json" {
		text, err := out.Indented(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
		if err != nil {
			return err
		}
		return cli.Write(w, text)
	}
	var documents plain.Own
	for i, o := range objects {
		text, err := out.Indented(o)
		if err != nil {
			return err
		}
		if i > 0 {
			documents += "---\n"
		}
		documents += text
	}
	return cli.Write(w, documents)
}
