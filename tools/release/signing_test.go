package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// The commands that make release prints sign a release, and those of docs/releasing.md verify it: with a key, and without a
// transparency log. A changed file, another image and another key are refused.
func TestThePrintedCommandsSign(t *testing.T) {
	cosign := os.Getenv("KUBECDC_TEST_COSIGN")
	if cosign == "" {
		t.Skip("this test runs cosign, which takes minutes to build: make signing runs it")
	}
	r, dir, keys := testRelease, t.TempDir(), t.TempDir()
	m, err := r.write(t.Context(), dir, testBinaries(t))
	must(t, err)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	place := strings.TrimPrefix(server.URL, "http://") + "/kubecdc"
	must(t, r.publish(t.Context(), dir, place))
	run := func(script string, env ...string) error {
		t.Helper()
		c := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
		c.Dir = keys
		c.Env = append(os.Environ(), "PATH="+filepath.Dir(cosign)+":"+os.Getenv("PATH"), "REGISTRY="+place, "COSIGN_PASSWORD=",
			"SIGN=--key "+keys+"/cosign.key --signing-config "+keys+"/signing-config.json", "IMAGE="+m.image.String(), "CHART="+m.chart.String(),
			"VERIFY=--key "+keys+"/cosign.pub --insecure-ignore-tlog")
		c.Env = append(c.Env, env...)
		out, err := c.CombinedOutput()
		t.Logf("%s\n%.4000s", script, out) // an attestation is printed as a whole
		return err
	}
	page, err := os.ReadFile("../../docs/releasing.md")
	must(t, err)
	must(t, run("cosign generate-key-pair; cosign signing-config create --out signing-config.json"))
	var printed bytes.Buffer
	must(t, r.explain(&printed, dir, m))
	_, commands, _ := strings.Cut(printed.String(), "make publish")
	_, commands, _ = strings.Cut(commands, "\n") // make publish was done above
	must(t, run(commands))

	_, verify, _ := strings.Cut(string(page), "```sh\ncosign verify-blob")
	verify, _, _ = strings.Cut("cosign verify-blob"+verify, "```")
	verify = "cd " + dir + "\n" + verify
	must(t, run(verify))
	if err := run(verify, "IMAGE="+m.chart.String()); err == nil {
		t.Error("an image without a signature is accepted")
	}
	must(t, run("mkdir other; cd other; cosign generate-key-pair"))
	if err := run(verify, "VERIFY=--insecure-ignore-tlog --key "+keys+"/other/cosign.pub"); err == nil {
		t.Error("another key is accepted")
	}
	for _, file := range []string{checksumsFile, r.chartFile()} {
		path := filepath.Join(dir, file)
		original, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, append(original, '\n'), 0o644))
		if err := run(verify); err == nil {
			t.Errorf("%s is accepted, though it was changed", file)
		}
		must(t, os.WriteFile(path, original, 0o644))
	}
}
