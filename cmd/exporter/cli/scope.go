package cli

import (
	"path"
	"strings"

	"github.com/spf13/cobra"

	"kubecdc/config"
	"kubecdc/internal/fault"
)

// scope is the settings that a command can use: patterns of their names, or titles of whole groups. A flag of any other setting is
// refused, since an answer would look as if it had been followed. A variable is ignored: commands run where exporter run does, with
// its environment.
type scope []string

// The scopes. Commands that need all that exporter run needs have no scope.
var (
	// ofLog is where the log is, and which cluster it is of.
	OfLog = scope{"KUBECONFIG", "KUBECDC_CONTEXT", "KUBECDC_CLUSTER", "KUBECDC_SINK", "KUBECDC_SINK_POSTGRES",
		"KUBECDC_SINK_POSTGRES_PASSWORD_FILE", "KUBECDC_KAFKA_BROKERS", "KUBECDC_KAFKA_TOPIC_PREFIX", "KUBECDC_KAFKA_TLS*",
		"KUBECDC_KAFKA_SASL_*", "KUBECDC_KAFKA_OAUTH_*", "KUBECDC_KAFKA_AWS_REGION", "KUBECDC_SCHEMA_REGISTRY_*", "KUBECDC_ENCODING"}
	// OfServe adds who may ask the server of a log.
	OfServe = OfLog.and("KUBECDC_HTTP_*")
	// ofCheckpoint is where the checkpoint is. The file that is the default depends on where the log is.
	OfCheckpoint = OfLog.and("KUBECDC_CHECKPOINT", "KUBECDC_CHECKPOINT_PASSWORD_FILE")
	// ofStatus adds how old a confirmation may be.
	OfStatus = OfCheckpoint.and("KUBECDC_WATERMARK_INTERVAL")
	// ofRequests adds who owns the slots, and in which a stream is.
	OfRequests = OfCheckpoint.and("KUBECDC_LEASE_DURATION", "KUBECDC_SLOTS")
	// ofReplay adds how topics are created and written to.
	OfReplay = OfCheckpoint.and("KUBECDC_KAFKA_PARTITIONS", "KUBECDC_KAFKA_REPLICATION_FACTOR", "KUBECDC_KAFKA_COMPRESSION",
		"KUBECDC_KAFKA_TRANSACTION_TIMEOUT", "KUBECDC_KAFKA_MAX_MESSAGE_BYTES", "KUBECDC_KAFKA_TOPIC_CONFIG", "KUBECDC_LOG_*")
	// ofVerify adds what is exported, and how.
	OfVerify = OfRequests.and("KUBECDC_RESOURCES", "KUBECDC_NAMESPACES", "KUBECDC_*_SELECTOR", "KUBECDC_PAGE_SIZE", "Records")
	// ofSchema is which cluster has the resource, and what its records look like.
	OfSchema = scope{"KUBECONFIG", "KUBECDC_CONTEXT", "KUBECDC_KAFKA_BROKERS", "KUBECDC_KAFKA_TOPIC_PREFIX", "KUBECDC_SCHEMA_REGISTRY_*",
		"KUBECDC_ENCODING", "KUBECDC_REDACT", "KUBECDC_BEFORE"}
)

func (s scope) and(more ...string) scope { return append(s[:len(s):len(s)], more...) }

// has reports whether a command of this scope can use a setting.
func (s scope) has(setting *config.Setting) bool {
	for _, pattern := range s {
		if match, _ := path.Match(pattern, setting.Env); match || pattern == setting.Group {
			return true
		}
	}
	return s == nil
}

// notUsed is the error for the flag of a setting that a command can't use.
func notUsed(c *cobra.Command, setting *config.Setting) error {
	return fault.Usage("--" + setting.Flag + " is a setting of exporter run, which " + c.CommandPath() + " can't use: " +
		instead(c, setting) + "\n" + c.CommandPath() + " --help explains all")
}

// flagsFor are flags of commands that do what a setting does for exporter run.
var flagsFor = map[string]string{"KUBECDC_NAMESPACES": "namespace", "KUBECDC_LABEL_SELECTOR": "selector",
	"KUBECDC_FIELD_SELECTOR": "where", "KUBECDC_OPS": "op", "KUBECDC_LISTEN": "url", "KUBECDC_HTTP_TOKEN_FILE": "token-file"}

// instead says how a command is told what a setting tells exporter run.
func instead(c *cobra.Command, setting *config.Setting) string {
	if own := c.LocalFlags().Lookup(flagsFor[setting.Env]); own != nil {
		return "use --" + own.Name + ", " + own.Usage
	}
	for _, argument := range []string{"TYPE", "STREAM"} {
		if setting.Env == "KUBECDC_RESOURCES" && strings.Contains(c.Use, argument) {
			return "name what it is about as an argument: " + c.UseLine()
		}
	}
	return "leave it out (" + setting.Env + " in the environment is ignored)"
}

// refusedSetting finds the setting whose flag a command does not have.
func refusedSetting(c *cobra.Command, flag string) *config.Setting {
	name, _, _ := strings.Cut(flag, "=")
	for _, s := range config.Settings() {
		if s.Flag == name && c.HasParent() && !c.HasSubCommands() {
			return s
		}
	}
	return nil
}
