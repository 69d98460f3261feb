package serve

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kubecdc/test/child"
	"kubecdc/test/servers"
)

// requestsFile has the requests that clients sent to an API server when they were recorded, without tokens. In it a REVISION is any, and a
// watch lasts a second.
const requestsFile = "testdata/requests.txt"

// client is a program that reads, by the server of its KUBECONFIG.
type client struct {
	name     string
	args     []string
	problems string // what the last run has written as errors
}

// readCommands are kubectl's commands.
var readCommands = []string{"get pods -A", "get pods -A -o wide --show-labels", "get deploy,svc -n default -o yaml", "get configmap c3 -o json", "get widgets -o wide",
	"get widgets.v1.example.com c3 -o yaml", "get all -n default", "get nodes,namespaces", "get pods --chunk-size=2", "get configmaps -l app=a -o name",
	"get pods --field-selector status.phase=Running", "get deploy c3 --subresource=status -o yaml", "get deploy c3 --subresource=scale -o yaml",
	"get pods -o custom-columns=N:.metadata.name", "get --raw /api/v1/namespaces/default/configmaps/c3", "get --raw /apis/apps/", "describe pod c3",
	"describe node c3", "describe deploy c3", "describe widget c3", "describe svc c3", "events -A", "get events -A", "explain pods.spec.containers", "explain widgets.spec",
	"api-resources --verbs=list,watch -o name", "rollout history deploy/c3", "wait --for=jsonpath={.metadata.name}=c3 --timeout=2s configmap/c3",
	"get configmap none", "get nothings", "get configmaps -w --request-timeout=2s", "get clusterroles", "get crds"}

func clientsOf(t *testing.T) (all []client) {
	kubectls := map[string]string{"kubectl 1.37": servers.Kubectl(t), "kubectl 1.29": servers.OlderKubectl(t, "0.29"), "kubectl 1.27": servers.OlderKubectl(t, "0.27")}
	for name, binary := range kubectls {
		for _, command := range readCommands {
			if name == "kubectl 1.27" && strings.HasPrefix(command, "explain") { // it needs /openapi/v2, which no log has
				continue
			}
			all = append(all, client{name: name, args: append([]string{binary}, strings.Fields(command)...)})
		}
	}
	for name, variable := range map[string]string{"client-go 0.29": "KUBECDC_TEST_CLIENT_GO", "Python": "KUBECDC_TEST_PYTHON", "Node": "KUBECDC_TEST_NODE",
		"popeye": "KUBECDC_TEST_POPEYE", "kubent": "KUBECDC_TEST_KUBENT"} {
		if command := strings.Fields(os.Getenv(variable)); len(command) > 0 {
			all = append(all, client{name: name, args: command})
		} else {
			t.Logf("%s is not tried: %s does not name it", name, variable)
		}
	}
	return all
}

// Clients read the same from a log as from its API server, over TLS. What they send is recorded (-args -update writes the file).
func TestClientsReadALog(t *testing.T) {
	if os.Getenv("KUBECDC_TEST_CLIENTS") == "" {
		t.Skip("KUBECDC_TEST_CLIENTS is not set: make clients")
	}
	p := newPast(t, "KUBECDC_RESOURCES=*,secrets", "KUBECDC_SECRETS=plain")
	p.populate()
	p.logged(t)
	recorded, mu := map[string]string{}, sync.Mutex{}
	forward := httputil.NewSingleHostReverseProxy(must[*url.URL](t)(url.Parse(p.kube.Config.Host)))
	forward.Transport, forward.FlushInterval = must[http.RoundTripper](t)(rest.TransportFor(p.kube.Config)), -1
	real := p.overTLS(t, "real", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if line := recordOf(r); line != "" {
			mu.Lock()
			request, agent, _ := strings.Cut(line, "\tby ")
			recorded[request] = agent
			mu.Unlock()
		}
		r.Header.Del("Authorization")
		forward.ServeHTTP(w, r)
	}))
	log := p.overTLS(t, "log", p.server)
	differ := map[string]int{}
	for _, c := range clientsOf(t) {
		want := c.run(t, real)
		got := c.run(t, log)
		if !strings.HasSuffix(want, "exit code 0") && !failing.MatchString(strings.Join(c.args, " ")) {
			t.Errorf("%s: %s fails on the API server: %s", c.name, strings.Join(c.args[1:], " "), want)
		}
		if differ[c.name] += 0; got != want {
			differ[c.name]++
			t.Errorf("%s: %s\nreads\n%s\n%s\nand from the API server\n%s", c.name, strings.Join(c.args[1:], " "), got, c.problems, want)
		}
	}
	t.Logf("runs that differ: %v; %d requests", differ, len(recorded))
	lines := make([]string, 0, len(recorded))
	for request, agent := range recorded {
		lines = append(lines, request+"\t"+agent)
	}
	slices.Sort(lines)
	if *update {
		ok(t, os.WriteFile(requestsFile, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	}
}

// overTLS serves a handler over TLS, and returns a kubeconfig for it.
func (p *past) overTLS(t *testing.T, name string, handler http.Handler) (kubeconfig string) {
	web := httptest.NewUnstartedServer(handler)
	web.EnableHTTP2 = true
	web.StartTLS()
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: web.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.AuthInfos["u"], config.CurrentContext = &clientcmdapi.AuthInfo{Token: "any"}, "c"
	kubeconfig = filepath.Join(t.TempDir(), name)
	ok(t, clientcmd.WriteToFile(*config, kubeconfig))
	return kubeconfig
}

var (
	failing = regexp.MustCompile(`configmap none|nothings|--request-timeout`)
	seconds = regexp.MustCompile(`\b(\d+m(\d+s)?|\d+s)\b`)
	spaces  = regexp.MustCompile(` +`)
	address = regexp.MustCompile(`https://127\.0\.0\.1:\d+`)
)

// run runs a client, and returns what it prints, without ages and what depends on their width.
func (c *client) run(t *testing.T, kubeconfig string) string {
	process := exec.CommandContext(t.Context(), c.args[0], c.args[1:]...)
	process.Env = append(child.Environ(), "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+filepath.Join(t.TempDir(), "cache"), "HOME="+t.TempDir())
	if strings.HasPrefix(c.name, "kubectl") {
		process.Args[0] = "kubectl" // it is part of the User-Agent
	}
	var problems strings.Builder
	process.Stderr = &problems
	out, err := process.Output()
	if err != nil && process.ProcessState == nil {
		t.Fatal(err)
	}
	text := spaces.ReplaceAllString(seconds.ReplaceAllString(string(out), "age"), " ")
	if slices.Contains(c.args, "api-resources") {
		text = strings.Join(slices.Sorted(strings.Lines(text)), "")
	}
	if c.problems = problems.String(); len(out) == 0 {
		text = c.problems // without API server's warnings, which a log lacks
	}
	return fmt.Sprintf("%sexit code %d", address.ReplaceAllString(text, "SERVER"), process.ProcessState.ExitCode())
}

// recordOf returns the line of a request that reads, or "" if it can't be sent again.
func recordOf(r *http.Request) string {
	v := r.URL.Query()
	if r.Method != http.MethodGet && r.Method != http.MethodHead || v.Has("continue") {
		return ""
	}
	path := r.URL.Path
	if version := v.Get("resourceVersion"); version != "" && version != "0" {
		v.Set("resourceVersion", "REVISION")
	}
	if isWatch := v.Get("watch"); isWatch != "" && isWatch != "0" && isWatch != "false" {
		v.Set("timeoutSeconds", "1")
	}
	if v.Del("hash"); len(v) > 0 { // a schema has one, which changes with the CRDs
		path += "?" + v.Encode()
	}
	return strings.Join([]string{r.Method, path, r.Header.Get("Accept"), "by " + r.UserAgent()}, "\t")
}

// Each request that was recorded has the same answer from both servers: code, type, layout, objects.
func (p *past) recorded(t *testing.T) {
	p.logged(t)
	p.awaitAll(t)
	revision := fmt.Sprint(must[int64](t)(p.kube.Revision(t.Context())))
	var all []sent
	for line := range strings.Lines(strings.ReplaceAll(string(must[[]byte](t)(os.ReadFile(requestsFile))), "REVISION", revision)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		all = append(all, sent{parts[0], parts[1], parts[2], parts[3]})
	}
	t.Logf("%d requests were recorded", len(all))
	p.sendAll(t, slices.Values(all))
}
