package serve

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/websocket"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kubecdc/test/child"
	"kubecdc/test/servers"
)

// Headlamp's server passes on to its pages the same of a log as of an API server, also by WebSocket. KUBECDC_TEST_HEADLAMP names the program.
func TestHeadlampReadsALog(t *testing.T) {
	headlamp := os.Getenv("KUBECDC_TEST_HEADLAMP")
	if headlamp == "" {
		t.Skip("KUBECDC_TEST_HEADLAMP does not name Headlamp's server")
	}
	p := newPast(t)
	p.populate()
	p.logged(t)
	forward := httputil.NewSingleHostReverseProxy(must[*url.URL](t)(url.Parse(p.kube.Config.Host)))
	forward.Transport = must[http.RoundTripper](t)(rest.TransportFor(p.kube.Config))
	both := contexts(t, map[string]string{"real": p.overTLS(t, "real", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Authorization")
		forward.ServeHTTP(w, r)
	})), "log": p.overTLS(t, "log", p.server)})
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	address := listener.Addr().(*net.TCPAddr)
	listener.Close()
	c := exec.Command(headlamp, "-kubeconfig", both, "-listen-addr", "127.0.0.1", "-port", fmt.Sprint(address.Port))
	c.Env = append(child.Environ(), "HOME="+t.TempDir())
	process := must[*child.Child](t)(child.Start(c))
	t.Cleanup(process.Kill)
	get := func(cluster, path string) (code int, body string) {
		answer, err := http.Get("http://" + address.String() + "/clusters/" + cluster + path)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text)
	}
	servers.Await(t, "Headlamp to answer", func() (bool, error) {
		code, _ := get("real", "/version")
		return code == http.StatusOK, nil
	})
	for _, path := range []string{"/api/v1/pods", "/api/v1/namespaces/default/configmaps", "/apis/apps/v1/deployments", "/apis/example.com/v1/widgets",
		"/api/v1/namespaces/default/configmaps/c3", "/api/v1/namespaces/default/configmaps/none"} {
		code, body := get("log", path)
		wantCode, want := get("real", path)
		if code != wantCode || listed([]byte(body)) != listed([]byte(want)) {
			t.Errorf("%s: %d %.300s, want %d %.300s", path, code, body, wantCode, want)
		}
	}
	for _, path := range []string{"/api", "/apis", "/api/v1", "/apis/apps/v1", "/apis/none/v1/nothings"} {
		want := p.ours(path, "*/*")
		if code, body := get("log", path); code != want.code || listed([]byte(body)) != listed(want.body) {
			t.Errorf("%s: %d %.300s, want %d %.300s", path, code, body, want.code, want.body)
		}
	}
	for _, cluster := range []string{"real", "log"} {
		socket := must[*websocket.Conn](t)(websocket.Dial("ws://"+address.String()+"/clusters/"+cluster+"/api/v1/namespaces/default/configmaps?watch=1", "", "http://"+address.String()))
		var event string
		ok(t, websocket.Message.Receive(socket, &event))
		socket.Close()
		if !strings.Contains(event, `"ADDED"`) || !strings.Contains(event, `"ConfigMap"`) {
			t.Errorf("%s: a watch begins with %.300s", cluster, event)
		}
	}
}

// contexts writes a kubeconfig with a context for each of some kubeconfigs.
func contexts(t *testing.T, files map[string]string) (path string) {
	config := clientcmdapi.NewConfig()
	for name, file := range files {
		one, err := clientcmd.LoadFromFile(file)
		ok(t, err)
		config.Clusters[name], config.AuthInfos[name] = one.Clusters["c"], one.AuthInfos["u"]
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	path = filepath.Join(t.TempDir(), "contexts")
	ok(t, clientcmd.WriteToFile(*config, path))
	return path
}
