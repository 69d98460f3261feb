package servers_test

import (
	"os"
	"path/filepath"
	"testing"

	"kubecdc/test/servers"
)

// A container's usual case: root, with the checkout below a folder that others
// may not enter, Postgres' user among them. The demo sets TMPDIR there too.
func TestPostgresRunsWhereOthersMayNotEnterTheCheckout(t *testing.T) {
	checkout := filepath.Join(t.TempDir(), "root")
	check(t, os.Mkdir(checkout, 0o700))
	dir, tmp := filepath.Join(checkout, ".servers"), filepath.Join(checkout, ".servers", "tmp")
	check(t, os.MkdirAll(tmp, 0o755))
	linkFetchedPostgres(t, dir)
	t.Setenv("KUBECDC_SERVERS_DIR", dir)
	t.Cleanup(func() { removeElsewhere(t, dir) })

	t.Setenv("TMPDIR", tmp)
	installPostgres(t)
	p, err := servers.StartPostgres(t.Context(), servers.PostgresOptions{})
	check(t, err)
	check(t, p.Stop())

	if steps := installPostgres(t); len(steps) > 0 {
		t.Errorf("the second time there is nothing to install, but: %q", steps)
	}
	t.Setenv("TMPDIR", "")
	if steps := installPostgres(t); len(steps) > 0 {
		t.Errorf("what the demo installed is not found with another TMPDIR: %q", steps)
	}
}

func installPostgres(t *testing.T) (steps []string) {
	t.Helper()
	missing, err := servers.Install(t.Context(), func(line string) { steps = append(steps, line) }, servers.PostgresPart)
	check(t, err)
	if len(missing) > 0 {
		t.Fatal(missing)
	}
	return steps
}

// linkFetchedPostgres spares a download where Postgres comes from Maven.
func linkFetchedPostgres(t *testing.T, dir string) {
	t.Helper()
	installed, err := servers.Dir()
	check(t, err)
	check(t, os.Symlink(filepath.Join(installed, "postgres"), filepath.Join(dir, "postgres")))
}

func removeElsewhere(t *testing.T, dir string) {
	t.Helper()
	if elsewhere, err := os.Readlink(filepath.Join(dir, "elsewhere")); err == nil {
		check(t, os.RemoveAll(elsewhere))
	}
}
