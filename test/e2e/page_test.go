package e2e

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"kubecdc/test/servers"
)

// This opens the status page of a real exporter, after changes and a gap, in a real browser: make page. make screenshots takes its
// pictures.
func TestTheStatusPageInABrowser(t *testing.T) {
	browser := os.Getenv("KUBECDC_TEST_BROWSER")
	if browser == "" {
		t.Skip("a browser is not part of what tests need; make page installs it and runs this test")
	}
	w := NewWorld(t)
	kinds := []Kind{ConfigMaps, Secrets, Deployments, Roles}
	writer := w.Writer(t, kinds).Fill(300)
	w.Env = w.With("KUBECDC_CLUSTER", "prod-eu1", "KUBECDC_PROOF_INTERVAL", "2s", "KUBECDC_RESOURCES", "*.apps,*.rbac.authorization.k8s.io,"+
		"configmaps,endpoints,namespaces,nodes,persistentvolumeclaims,pods,secrets,serviceaccounts,services")
	e := StartExporter(t, "the first", w.Env)
	w.AwaitComplete(t, writer, kinds)
	e.Kill()
	writer.Run(200)
	must(t, w.Kube.RestartAPIServer(context.Background()))
	e = StartExporter(t, "the second", w.Env).AwaitReady(t)
	Await(t, "the gaps to be recovered", func() (bool, error) {
		writer.Run(10)
		return e.Metric(t, "kubecdc_gaps_total", `complete="true"`) > 0 && e.Wrong() == "", nil
	})
	patient, cancel := servers.Patient(t.Context())
	defer cancel()
	page := exec.CommandContext(patient, browser, "-url", "http://"+e.Listen+"/", "-await", "paused by signal",
		"-axe", os.Getenv("KUBECDC_TEST_AXE"), "-shots", os.Getenv("KUBECDC_TEST_SHOTS"))
	page.Stderr = os.Stderr
	out, err := page.StdoutPipe()
	must(t, err)
	must(t, page.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if t.Log(lines.Text()); strings.TrimSpace(lines.Text()) == "open" {
			mustRun(t, w.Env, "pause", ConfigMaps.ID())
		}
	}
	must(t, page.Wait())
}
