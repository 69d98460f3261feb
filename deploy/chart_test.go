package deploy

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"kubecdc/config"
	"kubecdc/test/servers"
)

var update = flag.Bool("update", false, "write the generated files instead of comparing")

// helmCommand is Helm's own command, whose version is in test/helm/go.mod. The first time builds it: minutes.
var helmCommand = sync.OnceValues(func() (string, error) {
	c := exec.Command("go", "tool", "-n", "-modfile=../test/helm/go.mod", "helm")
	c.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	out, err := c.Output()
	return strings.TrimSpace(string(out)), err
})

func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	if testing.Short() {
		t.Skip("this test runs Helm, which takes minutes to build: make test runs it")
	}
	command, err := helmCommand()
	if err != nil {
		t.Fatalf("build Helm: %v", err)
	}
	c := exec.CommandContext(t.Context(), command, args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err = c.Run()
	return out.String(), errs.String(), err
}

// template returns the text that helm template renders from the chart.
func template(t *testing.T, namespace string, args ...string) string {
	t.Helper()
	text, stderr, err := helm(t, append([]string{"template", "kubecdc", "chart", "--namespace", namespace}, args...)...)
	if err != nil {
		t.Fatalf("helm template %v: %v\n%s", args, err, stderr)
	}
	return text
}

// render returns the objects that helm template renders from the chart.
func render(t *testing.T, namespace string, args ...string) []*unstructured.Unstructured {
	t.Helper()
	return decode(t, template(t, namespace, args...))
}

func decode(t *testing.T, text string) (objects []*unstructured.Unstructured) {
	t.Helper()
	d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := d.Decode(o); err == io.EOF {
			return objects
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// chartValues returns the files of values that the chart is tested with.
func chartValues(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("chart/ci/*-values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no values to test with", err)
	}
	return files
}

// The schema of the values has each setting, so that Helm refuses a mistyped one. Passwords belong to the Secret.
func TestTheSchemaOfTheValuesHasAllSettings(t *testing.T) {
	const file = "chart/values.schema.json"
	text, err := os.ReadFile(file)
	must(t, err)
	var schema map[string]any
	must(t, json.Unmarshal(text, &schema))
	open, secret := map[string]any{}, map[string]any{}
	for _, s := range config.Settings() {
		secret[s.Env] = settingSchema(s)
		if !s.Secret() || s.Kind() == "url" {
			open[s.Env] = secret[s.Env]
		}
	}
	properties := schema["properties"].(map[string]any)
	properties["config"].(map[string]any)["properties"] = open
	properties["secret"].(map[string]any)["properties"] = secret
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	must(t, e.Encode(schema))
	upToDate(t, file, b.String())
}

// notation has a regular expression for the values of each kind of setting with a special notation.
var notation = map[string]string{
	"number":           `-?[0-9]+(\.[0-9]+)?`,
	"size":             `[0-9]+(\.[0-9]+)? ?([kKMGTPE]i?)?B?`,
	"duration":         duration,
	"duration|forever": duration + "|forever",
}

const duration = `0|-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+`

func settingSchema(s *config.Setting) map[string]any {
	switch {
	case s.Kind() == "list":
		return map[string]any{"type": []string{"string", "array", "null"}, "items": map[string]any{"type": "string"}}
	case s.Kind() == "on|off":
		return map[string]any{"enum": []any{"on", "off", true, false, nil}}
	case len(s.Values) > 0:
		values := []any{nil}
		for _, v := range s.Values {
			values = append(values, v)
			if v == "on" || v == "off" {
				values = append(values, v == "on")
			}
		}
		return map[string]any{"enum": values}
	case notation[s.Kind()] != "": // an empty text is the default
		schema := map[string]any{"type": []string{"string", "null"}, "pattern": "^(" + notation[s.Kind()] + ")?$"}
		if s.Kind() == "number" || s.Kind() == "size" {
			schema["type"] = []string{"string", "number", "null"}
		}
		return schema
	case s.Env == "KUBECDC_LISTEN", s.Kind() == "size|off": // YAML's off
		return map[string]any{"type": []string{"string", "boolean", "null"}}
	}
	return map[string]any{"type": []string{"string", "null"}}
}

// helmLines matches the lines that the base leaves out. They belong to a release of Helm, or kustomize sets them itself: the
// namespace and a hash of the settings.
var helmLines = regexp.MustCompile(`(?m)^(# Source: .*| +namespace: kubecdc| +(helm\.sh/chart|` +
	`app\.kubernetes\.io/(managed-by|instance|version)|checksum/config): .*)\n`)

func TestTheBaseIsTheChart(t *testing.T) {
	const header = "# make docs renders this from the chart with values.yaml.\n"
	manifests, settings := withoutHelm(t)
	upToDate(t, "base/kubecdc.yaml", header+strings.Join(manifests, "---\n"))
	upToDate(t, "base/settings.env", header+strings.Join(settings, ""))
	serving, _ := withoutHelm(t, "--set=serve.enabled=true,serve.tlsSecret=kubecdc-serve-tls")
	serving = slices.DeleteFunc(serving, func(document string) bool { return slices.Contains(manifests, document) })
	upToDate(t, "examples/serve/serve.yaml", "# make docs renders this from the chart with serve.enabled.\n"+strings.Join(serving, "---\n"))
}

// withoutHelm renders the chart with the base's values, as documents, and its ConfigMap as lines.
func withoutHelm(t *testing.T, args ...string) (manifests, settings []string) {
	t.Helper()
	rendered := helmLines.ReplaceAllString(template(t, "kubecdc", append(args, "--values=base/values.yaml")...), "")
	rendered = regexp.MustCompile(`(?m)^ +annotations:\n( +spec:)`).ReplaceAllString(rendered, "$1") // the checksum was the only one
	for _, document := range strings.Split(rendered, "---\n")[1:] {
		o := decode(t, document)[0]
		if o.GetKind() != "ConfigMap" {
			manifests = append(manifests, strings.TrimSpace(document)+"\n")
			continue
		}
		for k, v := range find[corev1.ConfigMap](t, []*unstructured.Unstructured{o}, "ConfigMap").Data {
			settings = append(settings, k+"="+v+"\n")
		}
	}
	slices.Sort(settings)
	return manifests, settings
}

func upToDate(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		must(t, os.WriteFile(file, []byte(want), 0o644))
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("deploy/%s is not what the chart and the settings make (%v): run make docs", file, err)
	}
}

// An exporter with a certificate is probed and scraped by HTTPS.
func TestProbesUseTheExportersCertificate(t *testing.T) {
	tls := map[string]string{"KUBECDC_SINK": "stdout", "KUBECDC_HTTP_TLS_CERT": "/etc/tls/tls.crt", "KUBECDC_HTTP_TLS_KEY": "/etc/tls/tls.key"}
	objects := chartFor(t, tls, "--set=serviceMonitor.enabled=true")
	container := find[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Spec.Containers[0]
	for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe} {
		if probe.HTTPGet.Scheme != corev1.URISchemeHTTPS || probe.HTTPGet.Path == "" {
			t.Errorf("the probe is %v", probe)
		}
	}
	for _, o := range objects {
		if endpoints, found, _ := unstructured.NestedSlice(o.Object, "spec", "endpoints"); found {
			if scheme := endpoints[0].(map[string]any)["scheme"]; scheme != "https" {
				t.Errorf("Prometheus scrapes by %v", scheme)
			}
		}
	}
}

// A missing or mistyped value is an error of helm template and helm install, before anything is written.
func TestTheChartRefusesWrongValues(t *testing.T) {
	const kafka, postgres = "config.KUBECDC_KAFKA_BROKERS=kafka:9092", "secret.KUBECDC_CHECKPOINT=postgres://u:p@h/d"
	const past = "serve.enabled=true,serve.tlsSecret=tls"
	for _, test := range []struct {
		set  []string
		want string
	}{
		{[]string{postgres}, "no brokers: set config.KUBECDC_KAFKA_BROKERS"},
		{[]string{kafka}, "no checkpoint: set secret.KUBECDC_CHECKPOINT"},
		{[]string{"config.KUBECDC_SINK=postgres", postgres}, "set secret.KUBECDC_SINK_POSTGRES"},
		{[]string{kafka, "persistence.enabled=true", "replicas=2"}, "an SQLite checkpoint is for one process"},
		{[]string{kafka, postgres, "existingSecret=x"}, "secret and existingSecret"},
		{[]string{"existingSecret=x"}, "no brokers: set config.KUBECDC_KAFKA_BROKERS"},
		{[]string{"persistence.enabled=false"}, "no checkpoint: set secret.KUBECDC_CHECKPOINT"},
		{[]string{"replicas=2"}, "an SQLite checkpoint is for one process"},
		{[]string{kafka, postgres, "config.KUBECDC_SPOOL_SIZE=1.5GiB"}, "spool.sizeLimit: it must be more than KUBECDC_SPOOL_SIZE (1.5GiB)"},
		{[]string{kafka, postgres, "spool.sizeLimit=1G"}, "spool.sizeLimit: it must be more than KUBECDC_SPOOL_SIZE (1GiB)"},
		{[]string{kafka, postgres, "config.KUBECDC_RESOURCES=*"}, "apply what exporter rbac prints"},
		{[]string{kafka, postgres, `config.KUBECDC_RESOURCES=*.apps\,!statefulsets.apps`}, "apply what exporter rbac prints"},
		{[]string{kafka, postgres, `config.KUBECDC_RESOURCES=pods\,deploy`}, "deploy is not in the core group: write the plural with its group"},
		{[]string{kafka, postgres, "config.KUBECDC_KAFKA_BORKERS=x"}, "KUBECDC_KAFKA_BORKERS"},
		{[]string{kafka, postgres, "config.KUBECDC_SINK=kafak"}, "KUBECDC_SINK"},
		{[]string{kafka, postgres, "config.KUBECDC_BATCH_MAX_BYTES=4Mb"}, "KUBECDC_BATCH_MAX_BYTES"},
		{[]string{kafka, postgres, "config.KUBECDC_BATCH_LINGER=10"}, "KUBECDC_BATCH_LINGER"},
		{[]string{kafka, postgres, "config.KUBECDC_SLOTS=four"}, "KUBECDC_SLOTS"},
		{[]string{kafka, postgres, "config.KUBECDC_KAFKA_SASL_PASSWORD=x"}, "KUBECDC_KAFKA_SASL_PASSWORD"},
		{[]string{kafka, postgres, "serviceMonitor.enabled=true", "service.enabled=false"}, "serviceMonitor: it needs the Service"},
		{[]string{kafka, postgres, "extraEnv[0].name=KUBECDC_NAMESPACES,extraEnv[0].value=shop"}, "KUBECDC_NAMESPACES: set it in config"},
		{[]string{kafka, postgres, "secret.KUBECDC_HTTP_ACCESS=kubernetes"}, "KUBECDC_HTTP_ACCESS: set it in config"},
		{[]string{kafka, postgres, "config.KUBECDC_LISTEN=127.0.0.1:8080"}, "kubelet's probes don't reach a loopback address"},
		{[]string{kafka, postgres, "config.KUBECDC_LISTEN=:0"}, "needs a fixed port"},
		{[]string{kafka, postgres, "config.KUBECDC_LISTEN=off,podMonitor.enabled=true"}, "nothing is served"},
		{[]string{kafka, postgres, "podDisruptionBudget.enabled=true,podDisruptionBudget.minAvailable=1"}, "it allows no eviction"},
		{[]string{kafka, postgres, "rbac.clusterRole=false,config.KUBECDC_NAMESPACES=shop"}, "set config.KUBECDC_NAMESPACES, and config.KUBECDC_CLUSTER"},
		{[]string{postgres, "secret.KUBECDC_SINK=postgres"}, "set secret.KUBECDC_SINK_POSTGRES"},
		{[]string{kafka, postgres, "serve.enabled=true"}, "serve.tlsSecret: kubectl sends tokens only over TLS"},
		{[]string{past, "config.KUBECDC_SINK=stdout,persistence.enabled=true"}, "a log in stdout can't be read"},
		{[]string{past, "config.KUBECDC_LISTEN=:8443"}, "port 8443 of the Pod is that of serve"},
		{[]string{kafka, postgres, past, "serve.replicas=2,serve.existingClaim=disk"}, "one process has the copy of the topics"},
		{[]string{kafka, postgres, past, "serve.sizeLimit=4Gi"}, "serve.sizeLimit: it must be more than KUBECDC_SQLITE_MAX_SIZE (4GiB)"},
		{[]string{kafka, postgres, past, "rbac.clusterRole=false,config.KUBECDC_NAMESPACES=a,config.KUBECDC_CLUSTER=b"}, "serve and KUBECDC_HTTP_ACCESS=kubernetes need it"},
		{[]string{kafka, postgres, "fullnameOverride=My_Name"}, "fullnameOverride"},
		{[]string{kafka, postgres, "image.tagg=x"}, "tagg"},
		{[]string{kafka, postgres, "image.digest=latest"}, "digest"},
	} {
		args := []string{"template", "kubecdc", "chart"}
		for _, s := range test.set {
			args = append(args, "--set", s)
		}
		if _, stderr, err := helm(t, args...); err == nil || !strings.Contains(stderr, test.want) {
			t.Errorf("%v: %v, lacks %q\n%s", test.set, err, test.want, stderr)
		}
	}
}

// With room for the spool the chart requests it. Without a limit of its own the spool needs none.
func TestTheSpoolsDiskIsRequested(t *testing.T) {
	kafka := []string{"--set=config.KUBECDC_KAFKA_BROKERS=kafka:9092", "--set=secret.KUBECDC_CHECKPOINT=postgres://u:p@h/d"}
	for _, test := range []struct{ set, want string }{
		{"spool.enabled=true", "1536Mi"},
		{"spool.sizeLimit=3Gi,config.KUBECDC_SPOOL_SIZE=2G", "3Gi"},
		{"config.KUBECDC_SPOOL_SIZE=off", "1536Mi"},
		{"resources.requests.ephemeral-storage=4Gi", "4Gi"},
		{"spool.existingClaim=disk,config.KUBECDC_SPOOL_SIZE=9GiB", "0"},
		{"spool.enabled=false", "0"},
	} {
		objects := render(t, "kubecdc", append(kafka, "--set="+test.set)...)
		requests := find[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Spec.Containers[0].Resources.Requests
		if got := requests.StorageEphemeral().String(); got != test.want {
			t.Errorf("%s: the Pod requests %s of disk, want %s", test.set, got, test.want)
		}
	}
}

// Without values the chart exports what Kubernetes serves itself. What it leaves out is named here, and with rbac.aggregate rights for
// resources of later releases are granted too.
func TestTheChartExportsWhatIsBuiltIn(t *testing.T) {
	lists, err := clientset(t, servers.Kube(t).Config).Discovery().ServerPreferredResources()
	must(t, err)
	custom := regexp.MustCompile(`example\.com$|coreos\.com$`) // other tests have made them
	leftOut := []string{"secrets", "leases.coordination.k8s.io", "events.events.k8s.io"}
	rights := rightsIn(t, render(t, "kubecdc", "--set=rbac.aggregate=true"))
	named := strings.Split(find[corev1.ConfigMap](t, render(t, "kubecdc"), "ConfigMap").Data["KUBECDC_RESOURCES"], ",")
	for _, list := range lists {
		group := strings.TrimSuffix(list.GroupVersion, "/"+list.GroupVersion[strings.LastIndex(list.GroupVersion, "/")+1:])
		if group == "v1" {
			group = ""
		}
		for _, r := range list.APIResources {
			id := strings.TrimSuffix(r.Name+"."+group, ".")
			if custom.MatchString(id) || !slices.Contains(r.Verbs, "watch") {
				continue
			}
			if granted := rights[right("watch", group, r.Name, "", "")]; granted == slices.Contains(leftOut, id) {
				t.Errorf("%s: list and watch are granted: %v", id, granted)
			}
			named = slices.DeleteFunc(named, func(n string) bool { return n == id })
		}
	}
	if len(named) > 0 {
		t.Errorf("the API server does not serve %q", named)
	}
}

// An umbrella chart may put all objects into another namespace than its release's.
func TestNamespaceOverride(t *testing.T) {
	const here = "release"
	text := template(t, here, "--values=chart/ci/all-values.yaml", "--set=namespaceOverride=cdc")
	if strings.Contains(text, "namespace: "+here) || strings.Count(text, "namespace: cdc") < 10 {
		t.Errorf("with namespaceOverride:\n%s", text)
	}
}

// Nothing in the Pods' template depends on the passwords, since the template is exported like any object.
func TestPasswordsLeaveNoTraceOutsideTheSecret(t *testing.T) {
	deployment := func(password string) string {
		for _, o := range render(t, "kubecdc", "--set=config.KUBECDC_KAFKA_BROKERS=kafka:9092", "--set=secret.KUBECDC_CHECKPOINT="+password) {
			if o.GetKind() == "Deployment" {
				text, err := json.Marshal(o.Object)
				must(t, err)
				return string(text)
			}
		}
		t.Fatal("no Deployment")
		return ""
	}
	if a, b := deployment("postgres://u:one@h/d"), deployment("postgres://u:two@h/d"); a != b {
		t.Errorf("the Deployment differs with the password:\n%s\n%s", a, b)
	}
}
