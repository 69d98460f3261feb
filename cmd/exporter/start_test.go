package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"kubecdc/cmd/exporter/cli"
	"kubecdc/config"
	"kubecdc/test/child"
	"kubecdc/test/e2e"
	"kubecdc/test/servers"
)

// started is an exporter process whose start may fail.
type started struct {
	*exec.Cmd
	listen string
	text   child.Output // all that the process wrote, including its log
}

func start(t *testing.T, command, kubeconfig string, settings ...string) *started {
	t.Helper()
	address, err := servers.FreeAddress()
	must(t, err)
	s := &started{Cmd: exec.Command(os.Args[0], command), listen: address}
	s.Env = append(child.Environ(), "TEST_AS_EXPORTER=1", "KUBECONFIG="+kubeconfig, "KUBECDC_CLUSTER=start", "KUBECDC_LISTEN="+address,
		"KUBECDC_CHECKPOINT=sqlite:"+filepath.Join(t.TempDir(), "checkpoint.db"), "KUBECDC_LOG_FORMAT=text")
	s.Env = append(s.Env, settings...)
	s.Stdout, s.Stderr = &s.text, &s.text
	s.WaitDelay = time.Second // a credential plugin may live longer
	must(t, s.Start())
	t.Cleanup(func() {
		_ = s.Process.Kill()
		if t.Failed() {
			t.Log(s.text.String())
		}
	})
	return s
}

// get requests a path of the process's HTTP server, such as /readyz.
func (s *started) get(path string) (code int, body string) {
	answer, err := http.Get("http://" + s.listen + path)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}

// wantWaiting waits until the log and /readyz name what the process waits for. Until then it is alive, but not ready.
func (s *started) wantWaiting(t *testing.T, says ...string) {
	t.Helper()
	e2e.Await(t, fmt.Sprintf("the log and /readyz to say %q", says), func() (bool, error) {
		code, ready := s.get("/readyz")
		for _, text := range says {
			if !strings.Contains(s.text.String(), text) || !strings.Contains(ready, text) {
				return false, nil
			}
		}
		return code == http.StatusServiceUnavailable, nil
	})
	if code, _ := s.get("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz answers %d", code)
	}
}

// wantEnd sends SIGTERM, and demands that the process ends at once with this exit code.
func (s *started) wantEnd(t *testing.T, code int) {
	t.Helper()
	must(t, s.Process.Signal(syscall.SIGTERM))
	stopped, ended := time.Now(), make(chan *os.ProcessState, 1)
	go func() { state, _ := s.Process.Wait(); ended <- state }()
	late, cancel := servers.Patient(t.Context())
	defer cancel()
	select {
	case state := <-ended:
		t.Logf("%s, %s after SIGTERM", state, time.Since(stopped).Round(time.Millisecond))
		if state.ExitCode() != code {
			t.Errorf("exit code %d", state.ExitCode())
		}
	case <-late.Done():
		t.Fatal("it still runs after SIGTERM")
	}
}

// wantFailure demands that the process ends, with exit code 1 and these words in its output.
func (s *started) wantFailure(t *testing.T, says string) {
	t.Helper()
	if code, _ := exit(t, s.Cmd); code != cli.ExitFailed || !strings.Contains(s.text.String(), says) {
		t.Errorf("exit code %d, want one that says %q:\n%s", code, says, s.text.String())
	}
}

// processes run concurrently, and are checked one after another.
type processes map[string]func(*testing.T)

func (p processes) run(t *testing.T) {
	for name, probe := range p {
		t.Run(name, probe)
	}
}

// kubeconfig writes a kubeconfig for a server, with more YAML for its cluster and user.
func kubeconfig(t *testing.T, server, cluster, user string) string {
	t.Helper()
	text := fmt.Sprintf("clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true%s}}]\nusers: [{name: u, user: {%s}}]\n"+
		"contexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\n", server, cluster, user)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// answering starts a TLS server.
func answering(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(handler)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// identified answers only requests for the cluster's identity.
func identified(t *testing.T) string {
	t.Helper()
	return answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/kube-system" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"533171e1-5580-4b57-b59d-d26d1b31ef47","resourceVersion":"4"}}`)
	}).URL
}

// hanging completes TLS and never answers.
func hanging(t *testing.T) string {
	t.Helper()
	return answering(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }).URL
}

// silent accepts connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	// The kernel completes connections that no process accepts. The garbage collector closes an accepted connection that is
	// unreachable.
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

const sleepingPlugin = "exec: {apiVersion: client.authentication.k8s.io/v1, command: sleep, args: ['60'], interactiveMode: Never}"

// A server that does not answer is named in the log and in /readyz, and SIGTERM ends the process at once.
func TestWhatGivesNoAnswerAtTheStartIsNamed(t *testing.T) {
	quiet, all := silent(t), processes{}
	for name, c := range map[string]struct {
		kubeconfig string
		settings   []string
		says       []string
	}{
		"the API server": {kubeconfig(t, hanging(t), "", ""), nil,
			[]string{"waiting for the API server to say which cluster it is", "no answer yet"}},
		"a credential plugin": {kubeconfig(t, identified(t), "", sleepingPlugin), nil,
			[]string{"waiting for the API server to say which cluster it is", "no answer yet; the kubeconfig's credential plugin sleep comes before it"}},
		"the checkpoint": {kubeconfig(t, identified(t), "", ""), []string{"KUBECDC_SINK=stdout", "KUBECDC_CHECKPOINT=postgres://u@" + quiet + "/db"},
			[]string{"waiting for the checkpoint", quiet, "no answer yet"}},
		"the Postgres sink": {kubeconfig(t, identified(t), "", ""), []string{"KUBECDC_SINK=postgres", "KUBECDC_SINK_POSTGRES=postgres://u@" + quiet + "/db"},
			[]string{"waiting for the sink", quiet, "no answer yet"}},
		"Kafka": {kubeconfig(t, identified(t), "", ""), []string{"KUBECDC_SINK=kafka", "KUBECDC_KAFKA_BROKERS=" + quiet},
			[]string{"waiting for the sink to say which log it is", quiet, "no answer yet"}},
	} {
		s := start(t, "run", c.kubeconfig, c.settings...)
		all[name] = func(t *testing.T) {
			s.wantWaiting(t, c.says...)
			s.wantEnd(t, cli.ExitOK)
		}
	}
	all.run(t)
}

// A check does not wait for long, and names what it waited for.
func TestACheckSaysWhatItWaitedFor(t *testing.T) {
	all := processes{}
	for name, c := range map[string]struct{ kubeconfig, says string }{
		"the API server":      {kubeconfig(t, hanging(t), "", ""), "no answer yet"},
		"a credential plugin": {kubeconfig(t, identified(t), "", sleepingPlugin), "no answer yet; the kubeconfig's credential plugin sleep comes before it"},
	} {
		s := start(t, "check", c.kubeconfig)
		all[name] = func(t *testing.T) { s.wantFailure(t, c.says) }
	}
	all.run(t)
}

// A check that is stopped has not passed.
func TestSIGTERMEndsACheckAtOnce(t *testing.T) {
	asked := make(chan bool, 1)
	server := answering(t, func(_ http.ResponseWriter, r *http.Request) { asked <- true; <-r.Context().Done() })
	s := start(t, "check", kubeconfig(t, server.URL, "", ""))
	<-asked
	s.wantEnd(t, cli.ExitFailed)
}

// A failure that waiting can't repair ends run at once, even without a limit.
func TestWhatWaitingDoesNotMendEndsTheStart(t *testing.T) {
	trusting := answering(t, http.NotFound)
	untrusted := kubeconfig(t, trusting.URL, "", "")
	text, err := os.ReadFile(untrusted)
	if err == nil {
		err = os.WriteFile(untrusted, bytes.ReplaceAll(text, []byte("insecure-skip-tls-verify: true"), []byte("tls-server-name: elsewhere")), 0o600)
	}
	must(t, err)
	all := processes{}
	page := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<html>\n<h1>blocked</h1>\n</html>", http.StatusForbidden)
	}
	for name, c := range map[string]struct{ kubeconfig, says string }{
		"a certificate":                    {untrusted, "certificate"},
		"a plugin that is not there":       {kubeconfig(t, identified(t), "", strings.Replace(sleepingPlugin, "sleep,", "no-such-plugin,", 1)), "no-such-plugin not found"},
		"a proxy that forbids it":          {proxied(t, http.StatusForbidden), "(HTTPS_PROXY, or proxy-url in the kubeconfig) answers \"403 Forbidden\" when it is asked to connect to kube.example.com:6443"},
		"a proxy that wants a login":       {proxied(t, http.StatusProxyAuthRequired), "give it user and password"},
		"a page in the API server's place": {kubeconfig(t, answering(t, page).URL, "", ""), "a proxy, or whatever else is at 127.0.0.1:"},
	} {
		s := start(t, "run", c.kubeconfig)
		all[name] = func(t *testing.T) { s.wantFailure(t, c.says) }
	}
	all.run(t)
}

// proxied writes a kubeconfig with a proxy that answers CONNECT in this way.
func proxied(t *testing.T, code int) string {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			code = http.StatusTeapot
		}
		w.WriteHeader(code)
	}))
	t.Cleanup(proxy.Close)
	return kubeconfig(t, "https://kube.example.com:6443", ", proxy-url: "+strings.Replace(proxy.URL, "http://", "http://me:secret@", 1), "")
}

// While a proxy can't reach the API server, run waits, and names the proxy without its password.
func TestAProxyThatCantReachTheAPIServerIsWaitedFor(t *testing.T) {
	all := processes{}
	page := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<h1>Bad Gateway</h1>", http.StatusBadGateway)
	}
	for name, c := range map[string]struct{ kubeconfig, says string }{
		"CONNECT": {proxied(t, http.StatusBadGateway), "502 Bad Gateway"},
		"a page":  {kubeconfig(t, answering(t, page).URL, "", ""), "a proxy, or whatever else is at 127.0.0.1:"},
	} {
		s := start(t, "run", c.kubeconfig)
		all[name] = func(t *testing.T) {
			s.wantWaiting(t, c.says, "502")
			if strings.Contains(s.text.String(), "secret") {
				t.Error("the proxy's password is in the log")
			}
			s.wantEnd(t, cli.ExitOK)
		}
	}
	all.run(t)
}

func TestAPortInUseIsAWrongSetting(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	code, _, errs := exporter(t, "run", "--listen", taken.Addr().String(), "--kubeconfig", kubeconfig(t, "https://127.0.0.1:1", "", ""))
	if code != cli.ExitSettings || !strings.Contains(errs, "KUBECDC_LISTEN (--listen)") || !strings.Contains(errs, "choose another port") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// If another process has the default port, a first try of the exporter goes on.
func TestATakenDefaultPortIsNoObstacle(t *testing.T) {
	if taken, err := net.Listen("tcp", config.DefaultListen); err == nil { // else another process already has it
		defer taken.Close()
	}
	s := start(t, "run", kubeconfig(t, hanging(t), "", ""), "KUBECDC_LISTEN=")
	served := regexp.MustCompile(`status, health and metrics are served address=http://(127\.0\.0\.1:\d+)/`)
	e2e.Await(t, "an address to be served", func() (bool, error) { return served.MatchString(s.text.String()), nil })
	if s.listen = served.FindStringSubmatch(s.text.String())[1]; s.listen == config.DefaultListen {
		t.Errorf("it serves %s, which is taken", s.listen)
	}
	if code, answer := s.get("/healthz"); code != http.StatusOK {
		t.Errorf("%s answers %d: %s", s.listen, code, answer)
	}
	s.wantEnd(t, cli.ExitOK)
}
