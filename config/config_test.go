package config

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"kubecdc/internal/plain"
	"kubecdc/source/discovery"
	"kubecdc/test/require"
)

var update = flag.Bool("update", false, "write docs/settings.md instead of comparing")

// alone isolates the test from this machine's user and environment.
func alone(t *testing.T) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	for _, name := range []string{"XDG_STATE_HOME", "KUBERNETES_SERVICE_HOST", "PGPASSFILE", "PGSERVICEFILE"} {
		t.Setenv(name, "")
	}
}

func TestDefaultsAreRight(t *testing.T) {
	alone(t)
	c, warnings, err := Load(nil, nil)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("with no setting at all: %v, warnings %q", err, warnings)
	}
	if c.Sink.Kind != "sqlite" || c.Kafka.TopicPrefix != "kubecdc" || c.Source.Resources.String() != "*,!leases.coordination.k8s.io" {
		t.Errorf("defaults: %+v", c)
	}
}

// wrong has wrong values for each setting that can be wrong, and what the message must contain.
var wrong = []struct {
	env  []string
	name string // the name of the setting that is wrong
	fix  string
}{
	{[]string{"KUBECDC_RESOURCES=apps/deployments"}, "KUBECDC_RESOURCES", "deployments.apps"},
	{[]string{"KUBECDC_RESOURCES=Pods"}, "KUBECDC_RESOURCES", "lower case"},
	{[]string{"KUBECDC_RESOURCES=pods,a b"}, "KUBECDC_RESOURCES", "commas between"},
	{[]string{"KUBECDC_RESOURCES=pod*"}, "KUBECDC_RESOURCES", "*.example.com"},
	{[]string{"KUBECDC_NAMESPACES=Shop"}, "KUBECDC_NAMESPACES", "commas between"},
	{[]string{"KUBECDC_LABEL_SELECTOR=a in"}, "KUBECDC_LABEL_SELECTOR", "app=shop"},
	{[]string{"KUBECDC_FIELD_SELECTOR=a"}, "KUBECDC_FIELD_SELECTOR", "metadata.name=web"},
	{[]string{"KUBECDC_PAGE_SIZE=0"}, "KUBECDC_PAGE_SIZE", "from 1 to 10000"},
	{[]string{"KUBECDC_LIST=perhaps"}, "KUBECDC_LIST", "auto"},
	{[]string{"KUBECDC_PAGE_SIZE=many"}, "KUBECDC_PAGE_SIZE", "from 1 to 10000"},
	{[]string{"KUBECDC_WATERMARK_INTERVAL=10"}, "KUBECDC_WATERMARK_INTERVAL", "with its unit"},
	{[]string{"KUBECDC_WATERMARK_INTERVAL=1ms"}, "KUBECDC_WATERMARK_INTERVAL", "from 1s to 1h"},
	{[]string{"KUBECDC_SINK_POSTGRES_HISTORY=1h"}, "KUBECDC_SINK_POSTGRES_HISTORY", "at least 24h"},
	{[]string{"KUBECDC_KAFKA_HISTORY=30m"}, "KUBECDC_KAFKA_HISTORY", "at least 1h"},
	{[]string{"KUBECDC_KAFKA_HISTORY=always"}, "KUBECDC_KAFKA_HISTORY", "168h, or forever"},
	{[]string{"KUBECDC_KAFKA_TRANSACTION_TIMEOUT=100ms"}, "KUBECDC_KAFKA_TRANSACTION_TIMEOUT", "from 1s to 24h"},
	{[]string{"KUBECDC_SINK=kafak"}, "KUBECDC_SINK", "use kafka"},
	{[]string{"KUBECDC_SINK=postgres"}, "KUBECDC_SINK_POSTGRES", "set it, such as postgres://"},
	{[]string{"KUBECDC_SINK=postgres", "KUBECDC_SINK_POSTGRES=localhost/db"}, "KUBECDC_SINK_POSTGRES", "postgres://"},
	{[]string{"KUBECDC_CHECKPOINT=postgres://h/db?sslmode=verify-full&sslrootcert=/nowhere"}, "KUBECDC_CHECKPOINT", "sslrootcert"},
	{[]string{"KUBECDC_SINK=postgres", "KUBECDC_SINK_POSTGRES=postgres://h/db?sslmode=maybe"}, "KUBECDC_SINK_POSTGRES", "sslmode"},
	{[]string{"KUBECDC_CHECKPOINT=postgres://u:p@ss/w0rd@h/db"}, "KUBECDC_CHECKPOINT", "%40 %3A %2F"},
	{[]string{"KUBECDC_CHECKPOINT=postgres://u:12?w0rd@h/db"}, "KUBECDC_CHECKPOINT", "%40 %3A %2F"},
	{[]string{"KUBECDC_CHECKPOINT=postgres://u:12#w0rd@h/db"}, "KUBECDC_CHECKPOINT", "%40 %3A %2F"},
	{[]string{"KUBECDC_SINK=kafka"}, "KUBECDC_KAFKA_BROKERS", "set it, such as kafka-1:9092"},
	{[]string{"KUBECDC_SINK=kafka", "KUBECDC_KAFKA_BROKERS=kafka-1"}, "KUBECDC_KAFKA_BROKERS", "host:port"},
	{[]string{"KUBECDC_SINK=kafka", "KUBECDC_KAFKA_BROKERS=kafka://kafka-1:9092"}, "KUBECDC_KAFKA_BROKERS", "no scheme"},
	{[]string{"KUBECDC_KAFKA_TOPIC_PREFIX=my topic"}, "KUBECDC_KAFKA_TOPIC_PREFIX", "letters"},
	{[]string{"KUBECDC_KAFKA_PARTITIONS=0"}, "KUBECDC_KAFKA_PARTITIONS", "from 1"},
	{[]string{"KUBECDC_KAFKA_TOPIC_CONFIG=segment.bytes"}, "KUBECDC_KAFKA_TOPIC_CONFIG", "write NAME=VALUE"},
	{[]string{"KUBECDC_KAFKA_TOPIC_CONFIG=segment.bytes=1,segment.bytes=2"}, "KUBECDC_KAFKA_TOPIC_CONFIG", "write NAME=VALUE"},
	{[]string{"KUBECDC_KAFKA_TOPIC_CONFIG=retention.ms=1"}, "KUBECDC_KAFKA_TOPIC_CONFIG", "write NAME=VALUE"},
	{[]string{"KUBECDC_KAFKA_REPLICATION_FACTOR=0"}, "KUBECDC_KAFKA_REPLICATION_FACTOR", "-1 for the broker's default"},
	{[]string{"KUBECDC_KAFKA_COMPRESSION=zip"}, "KUBECDC_KAFKA_COMPRESSION", "zstd"},
	{[]string{"KUBECDC_KAFKA_DELIVERY=exactly_once"}, "KUBECDC_KAFKA_DELIVERY", "use exactly-once"},
	{[]string{"KUBECDC_KAFKA_MAX_MESSAGE_BYTES=1 potato"}, "KUBECDC_KAFKA_MAX_MESSAGE_BYTES", "8MiB"},
	{[]string{"KUBECDC_KAFKA_MAX_MESSAGE_BYTES=10"}, "KUBECDC_KAFKA_MAX_MESSAGE_BYTES", "from 1KiB to 1GiB"},
	{[]string{"KUBECDC_KAFKA_TLS=maybe"}, "KUBECDC_KAFKA_TLS", "on or off"},
	{[]string{"KUBECDC_KAFKA_TLS_CA=/nowhere"}, "KUBECDC_KAFKA_TLS_CA", "KUBECDC_KAFKA_TLS=on"},
	{[]string{"KUBECDC_KAFKA_TLS_SERVER_NAME=x"}, "KUBECDC_KAFKA_TLS_SERVER_NAME", "KUBECDC_KAFKA_TLS=on"},
	{[]string{"KUBECDC_KAFKA_TLS=on", "KUBECDC_KAFKA_TLS_CA=/nowhere"}, "KUBECDC_KAFKA_TLS_CA", "PEM file"},
	{[]string{"KUBECDC_KAFKA_TLS=on", "KUBECDC_KAFKA_TLS_CERT=/nowhere"}, "KUBECDC_KAFKA_TLS_KEY", "its key"},
	{[]string{"KUBECDC_KAFKA_TLS=on", "KUBECDC_KAFKA_TLS_KEY=/nowhere"}, "KUBECDC_KAFKA_TLS_CERT", "its certificate"},
	{[]string{"KUBECDC_KAFKA_TLS=on", "KUBECDC_KAFKA_TLS_KEY=/nowhere", "KUBECDC_KAFKA_TLS_CERT=/nowhere"}, "KUBECDC_KAFKA_TLS_CERT", "can read"},
	{[]string{"KUBECDC_KAFKA_SASL_MECHANISM=scram"}, "KUBECDC_KAFKA_SASL_MECHANISM", "SCRAM-SHA-512"},
	{[]string{"KUBECDC_KAFKA_SASL_MECHANISM=PLAIN", "KUBECDC_KAFKA_SASL_PASSWORD=x"}, "KUBECDC_KAFKA_SASL_USERNAME", "user"},
	{[]string{"KUBECDC_KAFKA_SASL_MECHANISM=OAUTHBEARER"}, "KUBECDC_KAFKA_OAUTH_TOKEN_FILE", "the token endpoint"},
	{[]string{"KUBECDC_KAFKA_SASL_MECHANISM=OAUTHBEARER", "KUBECDC_KAFKA_OAUTH_TOKEN_FILE=/nowhere"}, "KUBECDC_KAFKA_OAUTH_TOKEN_FILE", "can read"},
	{[]string{"KUBECDC_KAFKA_SASL_MECHANISM=OAUTHBEARER", "KUBECDC_KAFKA_OAUTH_TOKEN_URL=https://u:p@h/t", "KUBECDC_KAFKA_OAUTH_CLIENT_ID=x", "KUBECDC_KAFKA_OAUTH_CLIENT_SECRET_FILE=/etc/passwd"}, "KUBECDC_KAFKA_OAUTH_TOKEN_URL", "https://HOST/PATH"},
	{[]string{"KUBECDC_KAFKA_SASL_MECHANISM=OAUTHBEARER", "KUBECDC_KAFKA_OAUTH_TOKEN_URL=https://h/t", "KUBECDC_KAFKA_OAUTH_CLIENT_ID=x"}, "KUBECDC_KAFKA_OAUTH_CLIENT_SECRET_FILE", "secret"},
	{[]string{"KUBECDC_KAFKA_SASL_MECHANISM=OAUTHBEARER", "KUBECDC_KAFKA_OAUTH_TOKEN_FILE=/etc/passwd", "KUBECDC_KAFKA_OAUTH_EXTENSIONS=a1=b"}, "KUBECDC_KAFKA_OAUTH_EXTENSIONS", "NAME=VALUE"},
	{[]string{"KUBECDC_KAFKA_SASL_MECHANISM=AWS_MSK_IAM", "AWS_REGION="}, "KUBECDC_KAFKA_AWS_REGION", "eu-west-1"},
	{[]string{"KUBECDC_KAFKA_OAUTH_TOKEN_FILE=/etc/passwd"}, "KUBECDC_KAFKA_SASL_MECHANISM", "OAUTHBEARER"},
	{[]string{"KUBECDC_KAFKA_SASL_MECHANISM=PLAIN", "KUBECDC_KAFKA_SASL_USERNAME=x"}, "KUBECDC_KAFKA_SASL_PASSWORD", "KUBECDC_KAFKA_SASL_PASSWORD_FILE"},
	{[]string{"KUBECDC_KAFKA_SASL_USERNAME=x"}, "KUBECDC_KAFKA_SASL_MECHANISM", "SCRAM-SHA-512"},
	{[]string{"KUBECDC_KAFKA_SASL_MECHANISM=PLAIN", "KUBECDC_KAFKA_SASL_USERNAME=x", "KUBECDC_KAFKA_SASL_PASSWORD_FILE=/nowhere"}, "KUBECDC_KAFKA_SASL_PASSWORD_FILE", "can read"},
	{[]string{"KUBECDC_CHECKPOINT=mysql://h/db"}, "KUBECDC_CHECKPOINT", "sqlite:/"},
	{[]string{"KUBECDC_CHECKPOINT=sqlite:"}, "KUBECDC_CHECKPOINT", "sqlite:/"},
	{[]string{"KUBECDC_CHECKPOINT=sqlite:/"}, "KUBECDC_CHECKPOINT", "name a file"},
	{[]string{"KUBECDC_CHECKPOINT=postgres://u:p/w@h/db"}, "KUBECDC_CHECKPOINT", "%2F"},
	{[]string{"KUBECDC_HISTORY_RETENTION=7d"}, "KUBECDC_HISTORY_RETENTION", "24h"},
	{[]string{"KUBECDC_HISTORY_RETENTION=1s"}, "KUBECDC_HISTORY_RETENTION", "at least 1m"},
	{[]string{"KUBECDC_BEFORE=some"}, "KUBECDC_BEFORE", "none"},
	{[]string{"KUBECDC_METADATA_ONLY=Secret"}, "KUBECDC_METADATA_ONLY", "lower case"},
	{[]string{"KUBECDC_RESOURCES=!leases.coordination.k8s.io"}, "KUBECDC_RESOURCES", "*,!leases.coordination.k8s.io"},
	{[]string{"KUBECDC_RESOURCES=*,!Leases"}, "KUBECDC_RESOURCES", "lower case"},
	{[]string{"KUBECDC_RESOURCES=*,!!pods"}, "KUBECDC_RESOURCES", "write pods"},
	{[]string{"KUBECDC_RESOURCES=pods,!*"}, "KUBECDC_RESOURCES", "name the resources to leave out"},
	{[]string{"KUBECDC_RESOURCES=*,!deployments.v1.apps"}, "KUBECDC_RESOURCES", "write !deployments.apps"},
	{[]string{"KUBECDC_RESOURCES=*,secrets,!secrets"}, "KUBECDC_RESOURCES", "leave one of the two out"},
	{[]string{"KUBECDC_RESOURCES=secrets.v1,!secrets"}, "KUBECDC_RESOURCES", "leave one of the two out"},
	{[]string{"KUBECDC_RESOURCES=deployments.apps,!*.apps"}, "KUBECDC_RESOURCES", "leave one of the two out"},
	{[]string{"KUBECDC_METADATA_ONLY=!secrets"}, "KUBECDC_METADATA_ONLY", "*,!secrets"},
	{[]string{"KUBECDC_SECRETS=none"}, "KUBECDC_SECRETS", "hash"},
	{[]string{"KUBECDC_SECRETS=plain", "KUBECDC_METADATA_ONLY=secrets"}, "KUBECDC_SECRETS", "leave one of the two out"},
	{[]string{"KUBECDC_SECRETS=hash", "KUBECDC_METADATA_ONLY=secrets.v1"}, "KUBECDC_SECRETS", "leave one of the two out"},
	{[]string{"KUBECDC_SECRETS_KEY=s3cr"}, "KUBECDC_SECRETS_KEY", "16 or more"},
	{[]string{"KUBECDC_CHECKPOINT=postgres://u@h/d", "KUBECDC_CHECKPOINT_PASSWORD_FILE=/nowhere"}, "KUBECDC_CHECKPOINT_PASSWORD_FILE", "can read"},
	{[]string{"KUBECDC_CHECKPOINT=postgres://u@h/d", "KUBECDC_CHECKPOINT_PASSWORD_FILE=/dev/null"}, "KUBECDC_CHECKPOINT_PASSWORD_FILE", "write the password into it"},
	{[]string{"KUBECDC_CHECKPOINT=postgres://u:s3cr3t@h/d", "KUBECDC_CHECKPOINT_PASSWORD_FILE=/etc/passwd"}, "KUBECDC_CHECKPOINT_PASSWORD_FILE", "leave one of the two out"},
	{[]string{"KUBECDC_CHECKPOINT=postgres://u@h/d?password=s3cr3t", "KUBECDC_CHECKPOINT_PASSWORD_FILE=/etc/passwd"}, "KUBECDC_CHECKPOINT_PASSWORD_FILE", "leave one of the two out"},
	{[]string{"KUBECDC_CHECKPOINT=sqlite:/x", "KUBECDC_CHECKPOINT_PASSWORD_FILE=/etc/passwd"}, "KUBECDC_CHECKPOINT_PASSWORD_FILE", "leave it out"},
	{[]string{"KUBECDC_SINK=postgres", "KUBECDC_SINK_POSTGRES=postgres://u@h/d", "KUBECDC_SINK_POSTGRES_PASSWORD_FILE=/nowhere"}, "KUBECDC_SINK_POSTGRES_PASSWORD_FILE", "can read"},
	{[]string{"KUBECDC_SECRETS_KEY_FILE=/nowhere"}, "KUBECDC_SECRETS_KEY_FILE", "can read"},
	{[]string{"KUBECDC_SECRETS_KEY_FILE=/dev/null"}, "KUBECDC_SECRETS_KEY_FILE", "16 or more"},
	{[]string{"KUBECDC_REDACT=configmaps"}, "KUBECDC_REDACT", "RESOURCE:PATH"},
	{[]string{"KUBECDC_REDACT=ConfigMaps:data.a"}, "KUBECDC_REDACT", "configmaps:data.password"},
	{[]string{"KUBECDC_REDACT=!configmaps:data.a"}, "KUBECDC_REDACT", "configmaps:data.password"},
	{[]string{"KUBECDC_REDACT=deployments.v1.apps:spec.a"}, "KUBECDC_REDACT", "write deployments.apps:spec.a"},
	{[]string{"KUBECDC_REDACT=configmaps:data[a]"}, "KUBECDC_REDACT", "RESOURCE:PATH"},
	{[]string{"KUBECDC_REDACT=configmaps:data.a,configmaps:metadata"}, "KUBECDC_REDACT", "RESOURCE:PATH"},
	{[]string{"KUBECDC_IGNORE_FIELDS=nodes"}, "KUBECDC_IGNORE_FIELDS", "RESOURCE:PATH"},
	{[]string{"KUBECDC_IGNORE_FIELDS=nodes:metadata.name"}, "KUBECDC_IGNORE_FIELDS", "RESOURCE:PATH"},
	{[]string{"KUBECDC_MANAGED_FIELDS=hide"}, "KUBECDC_MANAGED_FIELDS", "drop"},
	{[]string{"KUBECDC_OPS=c,d"}, "KUBECDC_OPS", "c,d,r"},
	{[]string{"KUBECDC_OPS=create"}, "KUBECDC_OPS", "c,d,r"},
	{[]string{"KUBECDC_SLOTS=0"}, "KUBECDC_SLOTS", "from 1"},
	{[]string{"KUBECDC_LEASE_DURATION=1ms"}, "KUBECDC_LEASE_DURATION", "from 1s"},
	{[]string{"KUBECDC_BATCH_MAX_CHANGES=0"}, "KUBECDC_BATCH_MAX_CHANGES", "from 1"},
	{[]string{"KUBECDC_BATCH_MAX_BYTES=4Mb"}, "KUBECDC_BATCH_MAX_BYTES", "with a unit: 65536"},
	{[]string{"KUBECDC_BATCH_MAX_BYTES=1"}, "KUBECDC_BATCH_MAX_BYTES", "from 64KiB"},
	{[]string{"KUBECDC_BATCH_LINGER=-1s"}, "KUBECDC_BATCH_LINGER", "from 0s"},
	{[]string{"KUBECDC_BUFFER_CHANGES=10"}, "KUBECDC_BUFFER_CHANGES", "KUBECDC_BATCH_MAX_CHANGES"},
	{[]string{"KUBECDC_BUFFER_BYTES=64KiB"}, "KUBECDC_BUFFER_BYTES", "KUBECDC_BATCH_MAX_BYTES"},
	{[]string{"KUBECDC_LISTEN=8080"}, "KUBECDC_LISTEN", ":8080"},
	{[]string{"KUBECDC_HTTP_ACCESS=public"}, "KUBECDC_HTTP_ACCESS", "open, token, kubernetes"},
	{[]string{"KUBECDC_HTTP_ACCESS=token"}, "KUBECDC_HTTP_TOKEN_FILE", "openssl rand"},
	{[]string{"KUBECDC_HTTP_ACCESS=token", "KUBECDC_HTTP_TOKEN_FILE=/nowhere"}, "KUBECDC_HTTP_TOKEN_FILE", "can read"},
	{[]string{"KUBECDC_HTTP_ACCESS=token", "KUBECDC_HTTP_TOKEN_FILE=/dev/null"}, "KUBECDC_HTTP_TOKEN_FILE", "longer"},
	{[]string{"KUBECDC_HTTP_TOKEN_FILE=/dev/null"}, "KUBECDC_HTTP_TOKEN_FILE", "KUBECDC_HTTP_ACCESS=token"},
	{[]string{"KUBECDC_HTTP_TLS_CERT=/nowhere"}, "KUBECDC_HTTP_TLS_KEY", "its key"},
	{[]string{"KUBECDC_HTTP_TLS_KEY=/nowhere"}, "KUBECDC_HTTP_TLS_CERT", "its certificate"},
	{[]string{"KUBECDC_HTTP_TLS_CERT=/nowhere", "KUBECDC_HTTP_TLS_KEY=/nowhere"}, "KUBECDC_HTTP_TLS_CERT", "can read"},
	{[]string{"KUBECDC_SHUTDOWN_TIMEOUT=never"}, "KUBECDC_SHUTDOWN_TIMEOUT", "10s"},
	{[]string{"KUBECDC_LOG_LEVEL=loud"}, "KUBECDC_LOG_LEVEL", "debug"},
	{[]string{"KUBECDC_LOG_FORMAT=xml"}, "KUBECDC_LOG_FORMAT", "json"},
	{[]string{"KUBECDC_BACKFILL=maybe"}, "KUBECDC_BACKFILL", "on or off"},
	{[]string{"KUBECDC_BACKFILL_MAX_QPS=0"}, "KUBECDC_BACKFILL_MAX_QPS", "from 1"},
	{[]string{"KUBECDC_BACKFILL_MAX_REVISIONS=lots"}, "KUBECDC_BACKFILL_MAX_REVISIONS", "from 1"},
}

func TestEachWrongSettingIsNamedWithItsFix(t *testing.T) {
	alone(t)
	for _, w := range wrong {
		t.Run(strings.Join(w.env, " "), func(t *testing.T) {
			_, _, err := Load(w.env, nil)
			var e *Error
			if !errors.As(err, &e) || len(e.Problems) != 1 || e.Problems[0].Setting != w.name {
				t.Fatalf("want one problem, with %s: %v", w.name, err)
			}
			if !strings.Contains(e.Error(), w.name+" (--") || !strings.Contains(e.Problems[0].Fix, w.fix) {
				t.Errorf("want the names and a fix that says %q:\n%v", w.fix, err)
			}
		})
	}
}

// A user who corrects one entry of a list need not wait for the report of the next one.
func TestEachWrongEntryOfAListIsNamed(t *testing.T) {
	alone(t)
	for setting, wrong := range map[string][]string{
		"KUBECDC_RESOURCES":          {"Pods", "apps/deployments", "a b"},
		"KUBECDC_METADATA_ONLY":      {"Pods", "!Nodes"},
		"KUBECDC_NAMESPACES":         {"Shop", "a_b"},
		"KUBECDC_KAFKA_BROKERS":      {"kafka-1", "kafka-2"},
		"KUBECDC_KAFKA_TOPIC_CONFIG": {"segment.bytes", "retention.ms=1"},
		"KUBECDC_REDACT":             {"configmaps", "pods:spec[a", "nodes:metadata.name"},
		"KUBECDC_IGNORE_FIELDS":      {"nodes:metadata.uid", "pods"},
		"KUBECDC_OPS":                {"e", "f"},
	} {
		_, _, err := Load([]string{"KUBECDC_SINK=kafka", "KUBECDC_KAFKA_BROKERS=k:9092", setting + "=" + strings.Join(wrong, ",")}, nil)
		var e *Error
		if !errors.As(err, &e) || !strings.HasPrefix(e.Error(), "1 setting is wrong:") {
			t.Fatalf("%s: want one wrong setting: %v", setting, err)
		}
		text := ""
		for _, p := range e.Problems {
			text += p.What + "\n"
		}
		for _, entry := range wrong {
			if name, _, _ := strings.Cut(strings.TrimPrefix(entry, "!"), "="); strings.Count(text, name) != 1 {
				t.Errorf("%s: %q is not named once:\n%v", setting, entry, err)
			}
		}
	}
}

// Anyone on the network path could read, or pose as a server. One warning says that for each server, but none for this machine.
func TestPlainTextAndUnverifiedCertificatesAreWarnedOf(t *testing.T) {
	alone(t)
	kafka := []string{"KUBECDC_SINK=kafka", "KUBECDC_KAFKA_BROKERS=127.0.0.1:1,kafka:9092"}
	for _, test := range []struct {
		env     []string
		cluster string
		want    string
	}{
		{kafka, "", "KUBECDC_KAFKA_TLS is off"},
		{append(kafka, "KUBECDC_KAFKA_TLS=on"), "", ""},
		{[]string{"KUBECDC_SINK=kafka", "KUBECDC_KAFKA_BROKERS=127.0.0.1:1,localhost:2,[::1]:3"}, "", ""},
		{[]string{"KUBECDC_CHECKPOINT=postgres://u@db/d"}, "", "KUBECDC_CHECKPOINT lets the driver connect without TLS"},
		{[]string{"KUBECDC_CHECKPOINT=postgres://u@db/d?sslmode=disable"}, "", "KUBECDC_CHECKPOINT lets the driver connect without TLS"},
		{[]string{"KUBECDC_CHECKPOINT=postgres://u@db/d?sslmode=require"}, "", "KUBECDC_CHECKPOINT does not check the server's certificate"},
		{[]string{"KUBECDC_CHECKPOINT=postgres://u@db/d?sslmode=verify-full"}, "", ""},
		{[]string{"KUBECDC_CHECKPOINT=postgres://u@localhost/d?sslmode=disable"}, "", ""},
		{[]string{"KUBECDC_CHECKPOINT=postgres:///d?host=/run/postgresql&user=u"}, "", ""},
		{[]string{"KUBECDC_SINK=postgres", "KUBECDC_SINK_POSTGRES=postgres://u@db/d?sslmode=allow"}, "", "KUBECDC_SINK_POSTGRES lets the driver connect without TLS"},
		{nil, "server: https://k8s:6443, insecure-skip-tls-verify: true", "has insecure-skip-tls-verify"},
		{nil, "server: http://k8s:8080", "has an http URL"},
		{nil, "server: https://k8s:6443", ""},
		{nil, "server: http://127.0.0.1:8001", ""},
	} {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		text := "clusters: [{name: c, cluster: {" + cmp.Or(test.cluster, "server: https://k8s:6443") + "}}]\n" +
			"contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n"
		must(t, os.WriteFile(path, []byte(text), 0o600))
		_, _, warnings, err := Read(append(test.env, "KUBECONFIG="+path), nil)
		must(t, err)
		warnings = slices.DeleteFunc(warnings, func(w string) bool { return strings.HasPrefix(w, "Secrets are not exported") })
		if len(warnings) > 1 || strings.Join(warnings, "") == "" && test.want != "" || !strings.Contains(strings.Join(warnings, ""), test.want) ||
			test.want == "" && len(warnings) > 0 {
			t.Errorf("%v %s: warnings %q, want %q", test.env, test.cluster, warnings, test.want)
		}
	}
}

// Outside a Pod only this machine reaches the page, unless somebody wants it otherwise.
func TestThePageIsForThisMachineOutsideAPod(t *testing.T) {
	alone(t)
	listen := func(env ...string) string {
		c, _, err := Load(append(env, "KUBECDC_RESOURCES=pods", "KUBECDC_SINK=stdout"), nil)
		must(t, err)
		return c.Process.Listen
	}
	if got := listen(); got != "127.0.0.1:8080" {
		t.Errorf("outside a Pod it listens at %s", got)
	}
	if got := listen("KUBECDC_LISTEN=:9090"); got != ":9090" {
		t.Errorf("the setting is :9090, and it listens at %s", got)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	if got := listen(); got != ":8080" {
		t.Errorf("in a Pod it listens at %s", got)
	}
}

func TestAllThatIsWrongIsReportedAtOnce(t *testing.T) {
	alone(t)
	_, _, _, err := Read([]string{"KUBECONFIG=/nowhere", "KUBECDC_PAGE_SIZE=x", "KUBECDC_SINK=kafka", "KUBECDC_LISTEN=x",
		"KUBECDC_CHECKPOINT=x", "KUBECDC_RESOURCES=A"}, nil)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	names := []string{"KUBECONFIG", "KUBECDC_RESOURCES", "KUBECDC_PAGE_SIZE", "KUBECDC_KAFKA_BROKERS", "KUBECDC_CHECKPOINT", "KUBECDC_LISTEN"}
	var got []string
	for _, p := range e.Problems {
		got = append(got, p.Setting)
	}
	if !reflect.DeepEqual(got, names) {
		t.Errorf("want %v in the order of --help, got %v", names, got)
	}
	if !strings.HasPrefix(e.Error(), "6 settings are wrong:") {
		t.Error(e)
	}
}

// samples has a valid value for every setting, none of them the default.
func samples(t *testing.T) map[string]string {
	dir := t.TempDir()
	cert, key := certificate(t, dir)
	password := filepath.Join(dir, "password")
	hashKey := filepath.Join(dir, "hash-key")
	for file, text := range map[string]string{password: "hunter2\n", hashKey: "hunter2hunter2hunter2\n"} {
		must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	return map[string]string{
		"KUBECONFIG": "/k", "KUBECDC_CONTEXT": "c", "KUBECDC_CLUSTER": "n", "KUBECDC_RESOURCES": "pods, deployments.apps",
		"KUBECDC_NAMESPACES": "a,b", "KUBECDC_LABEL_SELECTOR": "a=b", "KUBECDC_FIELD_SELECTOR": "a=b", "KUBECDC_PAGE_SIZE": "7", "KUBECDC_LIST": "pages", "KUBECDC_COMPRESSION": "none",
		"KUBECDC_WATERMARK_INTERVAL": "3s", "KUBECDC_SINK": "kafka", "KUBECDC_SINK_POSTGRES": "postgres://h/d", "KUBECDC_SINK_POSTGRES_HISTORY": "720h", "KUBECDC_SQLITE_HISTORY": "100h", "KUBECDC_SQLITE_MAX_SIZE": "1GiB",
		"KUBECDC_KAFKA_BROKERS": "h:1,[::1]:2", "KUBECDC_KAFKA_TOPIC_PREFIX": "p", "KUBECDC_KAFKA_PARTITIONS": "3", "KUBECDC_KAFKA_TOPIC_CONFIG": "segment.bytes=1048576",
		"KUBECDC_KAFKA_REPLICATION_FACTOR": "3", "KUBECDC_KAFKA_COMPRESSION": "lz4", "KUBECDC_KAFKA_DELIVERY": "at-least-once",
		"KUBECDC_KAFKA_MAX_MESSAGE_BYTES": "1MiB", "KUBECDC_KAFKA_TRANSACTION_TIMEOUT": "2m", "KUBECDC_KAFKA_TRANSACTION_PROTOCOL": "2", "KUBECDC_KAFKA_HISTORY": "forever", "KUBECDC_KAFKA_EXPIRING_TOPICS": "accept", "KUBECDC_KAFKA_TLS": "on", "KUBECDC_KAFKA_TLS_CA": cert,
		"KUBECDC_KAFKA_TLS_CERT": cert, "KUBECDC_KAFKA_TLS_KEY": key, "KUBECDC_KAFKA_TLS_SERVER_NAME": "s",
		"KUBECDC_KAFKA_SASL_MECHANISM": "PLAIN",
		"KUBECDC_KAFKA_SASL_USERNAME":  "u", "KUBECDC_KAFKA_SASL_PASSWORD": "hunter2", "KUBECDC_KAFKA_SASL_PASSWORD_FILE": password,
		"KUBECDC_KAFKA_OAUTH_TOKEN_URL": "https://h/t", "KUBECDC_KAFKA_OAUTH_CLIENT_ID": "i", "KUBECDC_KAFKA_OAUTH_SCOPE": "s",
		"KUBECDC_KAFKA_OAUTH_CA": cert, "KUBECDC_KAFKA_OAUTH_EXTENSIONS": "a=b", "KUBECDC_KAFKA_AWS_REGION": "r",
		"KUBECDC_CHECKPOINT": "sqlite:/x", "KUBECDC_CHECKPOINT_INTERVAL": "2s", "KUBECDC_HISTORY_RETENTION": "1h", "KUBECDC_ENCODING": "object",
		"KUBECDC_SCHEMA_REGISTRY_URL": "https://r:8081", "KUBECDC_SCHEMA_REGISTRY_USERNAME": "u", "KUBECDC_SCHEMA_REGISTRY_PASSWORD": "hunter2",
		"KUBECDC_SCHEMA_REGISTRY_PASSWORD_FILE": password, "KUBECDC_SCHEMA_REGISTRY_CA": cert,
		"KUBECDC_BEFORE":        "none",
		"KUBECDC_METADATA_ONLY": "secrets", "KUBECDC_SECRETS": "metadata", "KUBECDC_SECRETS_KEY": "hunter2hunter2hunter2",
		"KUBECDC_SECRETS_KEY_FILE": hashKey, "KUBECDC_REDACT": `configmaps:data.tls\.crt`,
		"KUBECDC_MANAGED_FIELDS": "drop", "KUBECDC_IGNORE_FIELDS": "nodes:status.images", "KUBECDC_OPS": "c,d,r", "KUBECDC_SLOTS": "4", "KUBECDC_LEASE_DURATION": "5s",
		"KUBECDC_BATCH_MAX_CHANGES": "5", "KUBECDC_BATCH_MAX_BYTES": "1MiB", "KUBECDC_BATCH_LINGER": "1s",
		"KUBECDC_BUFFER_CHANGES": "5000", "KUBECDC_BUFFER_BYTES": "20MiB", "KUBECDC_LISTEN": "off",
		"KUBECDC_HTTP_ACCESS": "token", "KUBECDC_HTTP_TOKEN_FILE": hashKey, "KUBECDC_HTTP_TLS_CERT": cert, "KUBECDC_HTTP_TLS_KEY": key,
		"KUBECDC_SHUTDOWN_TIMEOUT": "3s", "KUBECDC_BACKFILL": "off", "KUBECDC_BACKFILL_MAX_QPS": "70", "KUBECDC_BACKFILL_MAX_REVISIONS": "9", "KUBECDC_PROOF_INTERVAL": "1h", "KUBECDC_LOG_LEVEL": "debug", "KUBECDC_LOG_FORMAT": "json",
		"KUBECDC_SPOOL_SIZE": "off", "KUBECDC_SPOOL_DIR": "/var/lib/kubecdc", "KUBECDC_AUDIT_FILES": "/var/log/audit*.log", "KUBECDC_AUDIT_PATH": "message", "KUBECDC_AUDIT_ALL": "on",
		"KUBECDC_AUDIT_EXTRA": "*", "KUBECDC_AUDIT_HIDE": "users",
	}
}

func environ(values map[string]string) (list []string) {
	for k, v := range values {
		list = append(list, k+"="+v)
	}
	return list
}

func TestAFlagMeansTheSameAsTheEnvironmentAndWins(t *testing.T) {
	alone(t)
	values := samples(t)
	for _, file := range []string{"KUBECDC_KAFKA_SASL_PASSWORD_FILE", "KUBECDC_SECRETS_KEY_FILE", "KUBECDC_SCHEMA_REGISTRY_PASSWORD_FILE"} { // exclude what they hold
		delete(values, file)
	}
	want, _, err := Load(environ(values), nil)
	must(t, err)
	for _, s := range Settings() {
		t.Run(s.Flag, func(t *testing.T) {
			if strings.HasSuffix(s.Env, "_FILE") {
				return
			}
			sample, ok := values[s.Env]
			if !ok {
				t.Fatal("has no sample in this test")
			}
			if zero, _, _ := Load(nil, nil); reflect.DeepEqual(s.value(want).Interface(), s.value(zero).Interface()) {
				t.Fatal("the sample has no effect")
			}
			values[s.Env] = "\x00 not right for anything"
			defer func() { values[s.Env] = sample }()
			got, _, err := Load(environ(values), parsed(t, "--"+s.Flag+"="+sample))
			if strings.HasPrefix(s.With, "KUBECDC_SINK=") && !strings.Contains(s.With, "kafka") { // the sink of the samples
				if err == nil || !strings.Contains(err.Error(), "or leave --"+s.Flag+" out") {
					t.Errorf("--%s is for another sink: %v", s.Flag, err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("--%s=%s differs from %s=%s: %v", s.Flag, sample, s.Env, sample, err)
			}
		})
	}
}

func TestPasswordFile(t *testing.T) {
	alone(t)
	values := samples(t)
	if _, _, err := Load(environ(values), nil); err == nil || strings.Count(err.Error(), "leave one of the two out") != 3 {
		t.Errorf("two passwords and a key twice: %v", err)
	}
	delete(values, "KUBECDC_KAFKA_SASL_PASSWORD")
	delete(values, "KUBECDC_SCHEMA_REGISTRY_PASSWORD")
	delete(values, "KUBECDC_SECRETS_KEY")
	c, _, err := Load(environ(values), nil)
	if err != nil || c.Kafka.SASLPassword != "" || c.Records.SecretsKey.Reveal() != "hunter2hunter2hunter2" {
		t.Errorf("a password from a file, which is read at each login and not stored, and a key from a file: %v", err)
	}
}

func parsed(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(fs, nil)
	must(t, fs.Parse(args))
	return fs
}

func TestASwitchNeedsNoValue(t *testing.T) {
	alone(t)
	c, _, err := Load(nil, parsed(t, "--sink", "kafka", "--kafka-brokers", "h:1", "--checkpoint", "sqlite:"+filepath.Join(t.TempDir(), "c"), "--kafka-tls"))
	if err != nil || !c.Kafka.TLS {
		t.Errorf("--kafka-tls alone: %v", err)
	}
}

// Only one command listens: the others read the same settings.
func TestAWebhookThatNothingListensForIsAWarning(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(token, []byte("0123456789abcdef"), 0o600))
	_, warnings, err := Load([]string{"KUBECDC_LISTEN=off", "KUBECDC_AUDIT_TOKEN_FILE=" + token}, nil)
	if err != nil || !strings.Contains(strings.Join(warnings, ""), "KUBECDC_AUDIT_TOKEN_FILE has no effect") {
		t.Errorf("%q, %v", warnings, err)
	}
}

func TestWarnings(t *testing.T) {
	alone(t)
	for env, want := range map[string]string{
		"KUBECDC_SNIK=kafka":                       "did you mean KUBECDC_SINK?",
		"KUBECDC_KAFKA_BROKER=h:1":                 "did you mean KUBECDC_KAFKA_BROKERS?",
		"KUBECDC_KAFKA_BROKERS=h:1":                "no effect while KUBECDC_SINK is sqlite: it is for KUBECDC_SINK=kafka",
		"KUBECDC_ENCODING=avro":                    "no effect while KUBECDC_SINK is sqlite",
		"KUBECDC_SERVICE_HOST=10.0.0.1":            "", // what kubelet sets for a Service is no typing error
		"KUBECDC_PORT_8080_TCP=tcp://10.0.0.1":     "",
		"KUBECDC_METRICS_SERVICE_PORT_METRICS=808": "",
		"PATH=/bin":                             "",
		"KUBECDC_RESOURCES=*,secrets":           "",
		"KUBECDC_SECRETS=hash":                  "add secrets",
		"KUBECDC_METADATA_ONLY=secrets":         "add secrets",
		"KUBECDC_RESOURCES=*,!leases.example":   "",
		"KUBECDC_METADATA_ONLY=*,!configmaps":   "",
		"KUBECDC_REDACT=*:metadata.managed\\.x": "",
	} {
		_, warnings, err := Load([]string{env}, nil)
		if err != nil || (want == "") != (len(warnings) == 0) || !strings.Contains(strings.Join(warnings, ""), want) {
			t.Errorf("%s: want %q, got %q, %v", env, want, warnings, err)
		}
	}
}

// A variable may be meant for another command, but whoever gives a flag wants what it says.
func TestAFlagWithoutEffectIsRefused(t *testing.T) {
	alone(t)
	for _, command := range []string{"", "sink"} {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		AddFlags(flags, func(s *Setting) bool { return s.Flag == "kafka-brokers" || s.Flag == command })
		must(t, flags.Parse([]string{"--kafka-brokers", "h:1"}))
		_, warnings, err := Load(nil, flags)
		if refused := err != nil && strings.Contains(err.Error(), "add --sink kafka, or leave --kafka-brokers out"); refused != (command != "") || refused == (err == nil) {
			t.Errorf("with the flag %q: %q, %v", command, warnings, err)
		}
	}
}

// TestNoPasswordInAnyMessage puts passwords of all sorts wherever one can be, breaks settings around them at random, and
// searches all output for them.
func TestNoPasswordInAnyMessage(t *testing.T) {
	alone(t)
	r := rand.New(rand.NewPCG(1, 2))
	const letters = "abcXYZ0189@:/?#%[]& '\"=+\\{}|^~,;"
	right := 0
	for range 3000 {
		secret := "s3cr" // what must never be printed, with random letters around it
		for range 1 + r.IntN(6) {
			secret += string(letters[r.IntN(len(letters))])
		}
		values := map[string]string{
			"KUBECDC_KAFKA_SASL_PASSWORD":  secret,
			"KUBECDC_SECRETS_KEY":          secret + pick(r, "", "0123456789abcdef"),
			"KUBECDC_CHECKPOINT":           pick(r, "postgres://u:%s@h/d", "postgres://u:%s@h:port/d", "postgres://h/d?password=%s", "u:%s@h/d", "host=h password=%s", "mysql://%s@h", "sqlit:%s", "%s", "postgres:%s", "POSTGRES://u:%s@h"),
			"KUBECDC_SINK_POSTGRES":        pick(r, "postgresql://u:%s@h/d?sslmode=x", "http://u:%s@h", "%s"),
			"KUBECDC_KAFKA_BROKERS":        pick(r, "h:1", "kafka://u:xs3crx@h:1", "u:xs3crx@h:1"),
			"KUBECDC_KAFKA_SASL_MECHANISM": pick(r, "", "PLAIN", "PLAIN"),
			"KUBECDC_SINK":                 pick(r, "stdout", "kafka", "postgres", "nil"),
			"KUBECDC_KAFKA_SASL_USERNAME":  pick(r, "", "u"),
			"KUBECDC_PAGE_SIZE":            pick(r, "", "x"),
		}
		if r.IntN(2) == 0 { // all right
			values["KUBECDC_CHECKPOINT"] = "postgres://u:" + url.QueryEscape(secret) + "@h/d"
			values["KUBECDC_SINK_POSTGRES"] = "postgres://h/d?user=u&password=" + url.QueryEscape(secret)
			values["KUBECDC_KAFKA_BROKERS"], values["KUBECDC_KAFKA_SASL_USERNAME"] = "h:1", "u"
		}
		for name, v := range values {
			if strings.HasSuffix(v, "%s") || strings.Contains(v, "%s@") {
				values[name] = fmt.Sprintf(v, secret)
			}
		}
		c, warnings, err := Load(environ(values), nil)
		all := fmt.Sprint(err, warnings)
		for _, form := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			all += fmt.Sprintf(form, c) + fmt.Sprintf(form, DSN(values["KUBECDC_CHECKPOINT"])) + fmt.Sprintf(form, Secret(secret))
		}
		if strings.Contains(all, "s3cr") {
			t.Fatalf("%q comes out of %q:\n%s", secret, values, all)
		}
		right += boolInt(err == nil)
	}
	t.Logf("%d of 3000 were right", right)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"dial postgres://u:p@ss@h/d failed": "dial postgres://***@h/d failed",
		"host=h password=abc user=u":        "host=h password=*** user=u",
		`{"password": "abc"}`:               `{"password": ***}`,
		"GET https://h/x?token=abc&a=b":     "GET https://h/x?token=***&a=b",
		"GET https://h/x?apikey=abc&a=b":    "GET https://h/x?apikey=***&a=b",
		"the continue token: expired":       "the continue token: expired",
		"stream secrets: 403":               "stream secrets: 403",
	} {
		if got := plain.Redact(in); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

func TestTheDefaultCheckpointIsOneForEachLog(t *testing.T) {
	alone(t)
	paths := map[string]bool{}
	for _, env := range [][]string{nil, {"KUBECDC_SINK=kafka", "KUBECDC_KAFKA_BROKERS=h:1"}, {"KUBECDC_SINK=kafka", "KUBECDC_KAFKA_BROKERS=h:1", "KUBECDC_KAFKA_TOPIC_PREFIX=b"}} {
		c, _, err := Load(env, nil)
		must(t, err)
		path, err := c.SQLitePath("prod/eu 1")
		if err != nil || paths[path] || !strings.HasPrefix(path, os.Getenv("HOME")) {
			t.Errorf("%v: %q, %v", env, path, err)
		}
		paths[path] = true
	}
}

func TestWhatConfigTakesSourceCanRead(t *testing.T) {
	alone(t)
	for _, text := range []string{"*", "*.example.com", "pods", "pods.v1", "deployments.apps", "deployments.v1.apps", "events.events.k8s.io"} {
		if _, _, err := Load([]string{"KUBECDC_RESOURCES=" + text}, nil); err != nil {
			t.Error(err)
		}
		if _, err := discovery.ParsePattern(text); err != nil {
			t.Error(err)
		}
	}
}

func TestEverySettingIsExplained(t *testing.T) {
	names := map[string]bool{}
	for _, s := range Settings() {
		if s.Env == "" || s.Help == "" || !strings.HasSuffix(strings.TrimSuffix(s.Help, ","), ".") && !strings.HasSuffix(s.Help, ",") || names[s.Flag] {
			t.Errorf("%s: help %q", s.Env, s.Help)
		}
		names[s.Flag] = true
	}
	for _, line := range strings.Split(Usage(80), "\n") {
		if len(line) > 80 {
			t.Errorf("wider than a terminal: %s", line)
		}
	}
}

func TestASettingIsOnlyForValuesThatAnotherOneCanHave(t *testing.T) {
	for _, s := range Settings() {
		name, values, other := strings.Cut(s.With, "=")
		for _, value := range strings.Split(values, ",") {
			if other && !slices.Contains(byEnv[name].Values, value) {
				t.Errorf("%s is for %s=%s, which can't be", s.Env, name, value)
			}
		}
	}
}

func TestIgnoredFieldsWithoutBeforeImages(t *testing.T) {
	alone(t)
	_, warnings, err := Load(environ(map[string]string{"KUBECDC_SINK": "stdout", "KUBECDC_IGNORE_FIELDS": "nodes:status", "KUBECDC_BEFORE": "none"}), nil)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "KUBECDC_IGNORE_FIELDS has no effect") {
		t.Errorf("warnings %q, %v", warnings, err)
	}
}

var must = require.NoError
