package serve

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/test/child"
	"kubecdc/test/servers"
)

// k9s shows a moment at which an object still lived, and describes that object. KUBECDC_TEST_K9S names the program
// (go install github.com/derailed/k9s@latest). tmux is its terminal.
func TestK9sShowsAMoment(t *testing.T) {
	k9s := os.Getenv("KUBECDC_TEST_K9S")
	if k9s == "" {
		t.Skip("KUBECDC_TEST_K9S does not name k9s")
	}
	p := newPast(t)
	configMaps := p.client.CoreV1().ConfigMaps("default")
	created := must[*core.ConfigMap](t)(configMaps.Create(t.Context(), &core.ConfigMap{Data: map[string]string{"greeting": "hello"},
		ObjectMeta: metav1.ObjectMeta{Name: "of-yesterday", Labels: map[string]string{"team": "shop"}}}, metav1.CreateOptions{}))
	ok(t, configMaps.Delete(t.Context(), "of-yesterday", metav1.DeleteOptions{}))
	servers.Await(t, "the log to have the deletion", func() (bool, error) {
		path := "/api/v1/namespaces/default/configmaps/of-yesterday"
		return p.ours("/at/"+created.ResourceVersion+path, asObjects).code == http.StatusOK && p.ours(path, asObjects).code == http.StatusNotFound, nil
	})
	_, address := p.serving(t)
	kubeconfig := exec.Command(p.binary, "kubeconfig", "--at", created.ResourceVersion, "--address", address.Host)
	kubeconfig.Env = child.Environ()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	ok(t, os.WriteFile(file, must[[]byte](t)(kubeconfig.Output()), 0o600))
	home := t.TempDir()
	socket := filepath.Join(home, "tmux")
	tmux := func(args ...string) string {
		c := exec.Command("tmux", append([]string{"-S", socket, "-f", "/dev/null"}, args...)...)
		c.Env = append(child.Environ(), "KUBECONFIG="+file, "HOME="+home, "TERM=xterm-256color", "XDG_CONFIG_HOME=", "XDG_DATA_HOME=", "XDG_STATE_HOME=")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %s: %v: %s", args[0], err, out)
		}
		return string(out)
	}
	tmux("new-session", "-d", "-x", "180", "-y", "60", k9s, "--command", "configmaps", "--all-namespaces")
	defer tmux("kill-server")
	shows := func(texts ...string) {
		screen := ""
		defer func() { t.Logf("k9s shows:\n%s", screen) }()
		servers.Await(t, fmt.Sprintf("k9s to show %q", texts), func() (bool, error) {
			screen = tmux("capture-pane", "-p")
			for _, text := range texts {
				if !strings.Contains(screen, text) {
					return false, nil
				}
			}
			return true, nil
		})
	}
	shows("of-yesterday", "extension-apiserver-authentication")
	tmux("send-keys", "/of-yesterday", "Enter")
	shows("configmaps(all)[1]", "of-yesterday")
	tmux("send-keys", "d")
	shows("Name:", "of-yesterday", "team=shop", "greeting:", "hello")
}
