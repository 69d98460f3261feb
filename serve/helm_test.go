package serve

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kubecdc/test/servers"
)

// helm reads its releases from a log as from an API server, if Secrets are exported as they are. With hashes it says that it can't.
func TestHelmReadsALog(t *testing.T) {
	helm := os.Getenv("KUBECDC_TEST_HELM")
	if helm == "" {
		t.Skip("KUBECDC_TEST_HELM does not name helm: make clients")
	}
	chart := t.TempDir()
	ok(t, os.MkdirAll(filepath.Join(chart, "templates"), 0o755))
	for name, text := range map[string]string{
		"Chart.yaml":        "apiVersion: v2\nname: greeting\nversion: 1.2.3\n",
		"values.yaml":       "text: hello\n",
		"templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  text: {{ .Values.text }}\n",
	} {
		ok(t, os.WriteFile(filepath.Join(chart, name), []byte(text), 0o644))
	}
	for _, secrets := range []string{"plain", "hash"} {
		t.Run(secrets, func(t *testing.T) {
			p := newPast(t, "KUBECDC_RESOURCES=*,secrets", "KUBECDC_SECRETS="+secrets)
			forward := httputil.NewSingleHostReverseProxy(must[*url.URL](t)(url.Parse(p.kube.Config.Host)))
			forward.Transport = must[http.RoundTripper](t)(rest.TransportFor(p.kube.Config))
			real := p.overTLS(t, "real", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Header.Del("Authorization")
				forward.ServeHTTP(w, r)
			}))
			log := p.overTLS(t, "log", p.server)
			run := func(kubeconfig, command string) (out, problems string) {
				c := client{name: "helm", args: append([]string{helm}, strings.Fields(command)...)}
				return c.run(t, kubeconfig), c.problems
			}
			for _, command := range []string{"install greeting " + chart, "upgrade greeting " + chart + " --set text=bye"} {
				if out, problems := run(real, command); !strings.HasSuffix(out, "exit code 0") {
					t.Fatalf("helm %s: %s %s", command, out, problems)
				}
			}
			servers.Await(t, "the log of the releases", func() (bool, error) {
				const path = "/api/v1/namespaces/default/secrets"
				return listed(p.real(path, asMetadata).body) == listed(p.ours(path, asMetadata).body), nil
			})
			for _, command := range []string{"list -A", "history greeting", "get manifest greeting", "get values greeting -o json", "status greeting"} {
				want, _ := run(real, command)
				got, problems := run(log, command)
				switch {
				case secrets == "plain" && (got != want || !strings.HasSuffix(got, "exit code 0")):
					t.Errorf("helm %s reads\n%s\n%s\nand from the API server\n%s", command, got, problems, want)
				case secrets == "hash" && !strings.Contains(problems, "redacted"):
					t.Errorf("helm %s does not say that it reads hashes: %s %s", command, got, problems)
				}
				t.Logf("helm %s: %s %s", command, got, problems)
			}
		})
	}
}
