package cli

import (
	"path"
	"strings"

	"github.com/spf13/cobra"

	"kubecdc/config"
	"kubecdc/internal/fault"
)

// scope is the settings that a command can use: patterns of names, or titles of groups. A flag of another setting is refused,
// since the answer would ignore it silently. A variable of another setting is ignored, since commands run in the environment of
// exporter run.
type scope []string

// These are the scopes. Commands that need all settings of exporter run have none.
var (
	// OfLog is where the log is, and its cluster. With SQLite the log is in the checkpoint's file.
	OfLog = scope{"KUBECONFIG", "KUBECDC_CONTEXT", "KUBECDC_CLUSTER", "KUBECDC_CHECKPOINT", "KUBECDC_SINK",
		"KUBECDC_SINK_POSTGRES",
		"KUBECDC_SINK_POSTGRES_PASSWORD_FILE", "KUBECDC_KAFKA_BROKERS", "KUBECDC_KAFKA_TOPIC_PREFIX", "KUBECDC_KAFKA_TLS*",
		"KUBECDC_KAFKA_SASL_*", "KUBECDC_KAFKA_OAUTH_*", "KUBECDC_KAFKA_AWS_REGION", "KUBECDC_SCHEMA_REGISTRY_*",
		"KUBECDC_ENCODING"}
	// OfServe adds who may read from the server of a log.
	OfServe = OfLog.and("KUBECDC_HTTP_*")
	// OfCheckpoint adds where the checkpoint is. The default file depends on where the log is.
	OfCheckpoint = OfLog.and("KUBECDC_CHECKPOINT_PASSWORD_FILE")
	// OfStatus adds the maximal age of a confirmation.
	OfStatus = OfCheckpoint.and("KUBECDC_WATERMARK_INTERVAL")
	// OfRequests adds who owns the slots, and which slot has a stream.
	OfRequests = OfCheckpoint.and("KUBECDC_LEASE_DURATION", "KUBECDC_SLOTS")
	// OfReplay adds how topics are created and written.
	OfReplay = OfCheckpoint.and("KUBECDC_KAFKA_PARTITIONS", "KUBECDC_KAFKA_REPLICATION_FACTOR", "KUBECDC_KAFKA_COMPRESSION",
		"KUBECDC_KAFKA_TRANSACTION_TIMEOUT", "KUBECDC_KAFKA_MAX_MESSAGE_BYTES", "KUBECDC_KAFKA_TOPIC_CONFIG", "KUBECDC_LOG_*")
	// OfVerify adds what is exported, and in which form.
	OfVerify = OfRequests.and("KUBECDC_RESOURCES", "KUBECDC_NAMESPACES", "KUBECDC_*_SELECTOR", "KUBECDC_PAGE_SIZE", "Records")
	// OfSchema is the cluster that has the resource, and the form of its records.
	OfSchema = scope{"KUBECONFIG", "KUBECDC_CONTEXT", "KUBECDC_KAFKA_BROKERS", "KUBECDC_KAFKA_TOPIC_PREFIX",
		"KUBECDC_SCHEMA_REGISTRY_*",
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

// notUsed returns the error for the flag of a setting that a command can't use.
func notUsed(c *cobra.Command, setting *config.Setting) error {
	return fault.Usage("--" + setting.Flag + " is a setting of exporter run, which " + c.CommandPath() + " can't use: " +
		alternative(c, setting) + "\n" + c.CommandPath() + " --help explains all")
}

// flagsFor are flags of commands with the purpose of a setting of exporter run.
var flagsFor = map[string]string{"KUBECDC_NAMESPACES": "namespace", "KUBECDC_LABEL_SELECTOR": "selector",
	"KUBECDC_FIELD_SELECTOR": "where", "KUBECDC_OPS": "op", "KUBECDC_LISTEN": "url", "KUBECDC_HTTP_TOKEN_FILE": "token-file"}

// alternative says how a command gets what a setting gives exporter run.
func alternative(c *cobra.Command, setting *config.Setting) string {
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

// refusedSetting returns the setting whose flag a command refuses, or nil.
func refusedSetting(c *cobra.Command, flag string) *config.Setting {
	name, _, _ := strings.Cut(flag, "=")
	for _, s := range config.Settings() {
		if s.Flag == name && c.HasParent() && !c.HasSubCommands() {
			return s
		}
	}
	return nil
}
