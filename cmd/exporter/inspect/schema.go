package inspect

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kubecdc/change"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/config"
	"kubecdc/internal/dependency"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
	"kubecdc/schema"
	"kubecdc/setup"
	"kubecdc/source/discovery"
)

const schemaHelp = `Print what a program needs to read a resource's records with typed columns.

The types come from the cluster's own OpenAPI v3 documents, custom resources
included, or from a file of CustomResourceDefinitions, without a cluster. Paste
the output into the program:

  flink         CREATE TABLE: changes in Debezium's form, in JSON or Avro; needs
                before-images
  flink-upsert  CREATE TABLE and VIEW: present objects, with before-images or
                without; also for KUBECDC_ENCODING=object
  postgres      views of the Postgres sink's tables: objects, and changes
  connect       properties of a Kafka Connect sink, with JsonConverter's schema
  avro          Avro schema of a record's value: KUBECDC_ENCODING=avro
  spark         PySpark, with from_json

  exporter schema pods --as flink --columns spec.nodeName,status.phase
  exporter schema deployments.apps --as postgres | psql
  exporter schema orders.example.com --as avro --crds crds.yaml

docs/schemas.md explains the types, and with which programs they were tested.`

const schemaSettings = `These settings of exporter run apply here, as environment variables or flags:
KUBECONFIG and KUBECDC_CONTEXT (which cluster), KUBECDC_KAFKA_BROKERS,
KUBECDC_KAFKA_TOPIC_PREFIX, KUBECDC_ENCODING (the form of the records),
KUBECDC_SCHEMA_REGISTRY_URL, and KUBECDC_REDACT (redacted values are strings).
`

// schemaFlags are the flags of exporter schema that are not settings.
type schemaFlags struct {
	program, crds string
	columns       schema.Columns
}

// NewSchema returns the command exporter schema.
func NewSchema() *cobra.Command {
	var f schemaFlags
	own := pflag.NewFlagSet("schema", pflag.ContinueOnError)
	own.StringVar(&f.program, "as", "", "the `program` to print for (required)")
	own.StringVar(&f.crds, "crds", "", "`file` of CustomResourceDefinitions (YAML or JSON) to use in place of a cluster")
	own.StringSliceVar(&f.columns.Only, "columns", nil,
		"`paths` to have, with what is below them, such as spec.nodeName,status. "+
			"Default: all but metadata.managedFields")
	own.StringSliceVar(&f.columns.Without, "without", nil, "`paths` to leave out, with what is below them, such as status")
	own.StringSliceVar(&f.columns.JSON, "json", nil, "`paths` to have as JSON")
	c := &cobra.Command{
		Use:   "schema RESOURCE --as PROGRAM [flags]",
		Short: "Print the statement or schema to read a resource's records with",
		Long:  schemaHelp,
		RunE:  func(c *cobra.Command, args []string) error { return printSchema(c.Context(), c, args, f) },
	}
	c.Flags().AddFlagSet(own)
	return cli.WithSettingsHelp(schemaSettings, c, cli.OfSchema)
}

func printSchema(ctx context.Context, c *cobra.Command, args []string, f schemaFlags) error {
	if len(args) != 1 || f.program == "" {
		return fault.Usage("name one resource and a program, such as: exporter schema pods --as flink\n" +
			"exporter schema --help explains all")
	}
	if err := schema.CheckDialect(f.program); err != nil {
		return err
	}
	settings, found, err := f.read(ctx, c, args[0])
	if err != nil {
		return err
	}
	if f.program == "flink" && settings.Records.Before == "none" {
		return fault.Usage("--as flink: it needs before-images, and the settings have KUBECDC_BEFORE=none; use --as flink-upsert")
	}
	f.columns.Redacted = setup.Redacted(settings.Records.Redact, found.Resource)
	object, err := found.object.Choose(f.columns)
	if err != nil {
		return err
	}
	text, err := schema.Write(f.program, schema.Table{Resource: found.Resource, Object: object,
		Prefix:  settings.Kafka.TopicPrefix,
		Brokers: strings.Join(settings.Kafka.Brokers, ","), Encoding: settings.Records.Encoding,
		Registry: cmp.Or(settings.Registry.URLs...)})
	if err != nil {
		return err
	}
	if screen.IsTerminal(c.OutOrStdout()) {
		text = plain.Lines(text) // elsewhere a program reads it, which needs the members' exact names
	}
	return cli.Write(c.OutOrStdout(), plain.Own(text))
}

// described is a resource with the type of its objects.
type described struct {
	change.Resource
	object *schema.Type
}

func (f *schemaFlags) read(ctx context.Context, c *cobra.Command, name string) (*config.Config, described, error) {
	if f.crds == "" {
		settings, connection, _, err := config.Read(os.Environ(), c.Flags())
		if err != nil {
			return nil, described{}, err
		}
		found, err := fromCluster(ctx, setup.NewCluster(connection), name)
		return settings, found, err
	}
	settings, _, err := config.Load(os.Environ(), c.Flags())
	if err != nil {
		return nil, described{}, err
	}
	found, err := fromFile(f.crds, name)
	return settings, found, err
}

func fromFile(path, name string) (found described, err error) {
	file, err := os.ReadFile(path)
	if err != nil {
		if reason, ok := errors.AsType[*fs.PathError](err); ok {
			err = reason.Err
		}
		return found, fault.Usagef("read --crds %s: %v; name a file that this user can read", path, err)
	}
	crds, err := schema.ParseCRDs(file)
	if err != nil {
		return found, fault.Usagef("read --crds %s: %v", path, err)
	}
	found.Resource, found.object, err = crds.Find(name)
	return found, err
}

func fromCluster(ctx context.Context, cluster *setup.Cluster, name string) (found described, err error) {
	server, err := discovery.Connect(cluster.REST)
	if err != nil {
		return found, err
	}
	step := dependency.Step{Awaited: "the API server", Address: server.Host(), Limit: setup.RequestLimit,
		Before: cluster.Before()}
	err = dependency.Once(ctx, step, func(ctx context.Context) error {
		served, err := server.Served(ctx)
		if err != nil {
			return err
		}
		if found.Resource, err = served.Find(served.Long([]string{name})[0]); err != nil {
			return err
		}
		document, err := server.OpenAPI(ctx, found.Resource)
		if err != nil {
			return err
		}
		found.object, err = schema.FromOpenAPI(document, found.Resource)
		return err
	})
	return found, err
}
