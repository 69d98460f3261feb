package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: s3cr}}]
contexts:
- {name: prod, context: {cluster: c, user: u}}
- {name: test, context: {cluster: c, user: u}}
- {name: broken, context: {cluster: none, user: u}}
`

func writeKubeconfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestConnect(t *testing.T) {
	alone(t)
	path := writeKubeconfig(t, kubeconfig+"current-context: prod\n")
	none := writeKubeconfig(t, kubeconfig)
	for _, c := range []struct {
		source  Source
		cluster string // its name, when it is found
		says    string // or what the error says
	}{
		{Source{Kubeconfig: path}, "prod", ""},
		{Source{Kubeconfig: path + string(os.PathListSeparator) + "/nowhere"}, "prod", ""},
		{Source{Kubeconfig: path, Context: "test"}, "test", ""},
		{Source{Kubeconfig: path, Cluster: "eu"}, "eu", ""},
		{Source{Kubeconfig: path, Context: "tset"}, "", "did you mean test? the kubeconfig has broken, prod, test"},
		{Source{Kubeconfig: path, Context: "broken"}, "", "context broken"},
		{Source{Kubeconfig: none}, "", "no current context"},
		{Source{Kubeconfig: "/nowhere"}, "", "no such file"},
		{Source{Kubeconfig: writeKubeconfig(t, "{")}, "", "can't be read"},
		{Source{Kubeconfig: writeKubeconfig(t, "")}, "", "has no context"},
		{Source{}, "", "this is not a Pod"},
	} {
		conn, err := c.source.Connect()
		switch {
		case c.says == "" && (err != nil || conn.Cluster != c.cluster || conn.REST.BearerToken != "s3cr"):
			t.Errorf("%+v: %v, %v", c.source, conn, err)
		case c.says != "" && (err == nil || !IsError(err) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%+v: want an error that says %q: %v", c.source, c.says, err)
		case err != nil && strings.Contains(err.Error(), "s3cr"):
			t.Errorf("the token comes out: %v", err)
		}
	}
}

func TestConnectReadsTheHomeFolder(t *testing.T) {
	alone(t)
	must(t, os.MkdirAll(filepath.Join(os.Getenv("HOME"), ".kube"), 0o700))
	must(t, os.WriteFile(filepath.Join(os.Getenv("HOME"), ".kube", "config"), []byte(kubeconfig+"current-context: prod\n"), 0o600))
	if conn, err := (&Source{}).Connect(); err != nil || conn.Cluster != "prod" {
		t.Errorf("%v, %v", conn, err)
	}
}
