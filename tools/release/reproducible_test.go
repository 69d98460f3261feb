package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// Two clones in folders of different names make the same files, though nothing that the first has compiled serves the second.
func TestTwoReleasesOfACommitAreTheSame(t *testing.T) {
	if os.Getenv("KUBECDC_TEST_REPRODUCIBLE") == "" {
		t.Skip("this test builds two releases: make reproducible runs it")
	}
	var releases [][]checksum
	source := "../.."
	for _, name := range []string{"one", "a-second-clone"} {
		dir := t.TempDir()
		clone, out := filepath.Join(dir, name), filepath.Join(dir, "dist")
		command(t, exec.Command("git", "clone", "--quiet", source, clone))
		source = clone // which stays at its commit, whatever is committed meanwhile
		build := exec.Command("go", "run", ".", "-version", "v1.2.3-test", "-out", out)
		build.Dir = filepath.Join(clone, "tools", "release")
		build.Env = append(os.Environ(), "GOWORK=off", "GOCACHE="+filepath.Join(dir, "cache"))
		command(t, build)
		sums, err := checksums(filepath.Join(out, "v1.2.3-test"))
		must(t, err)
		releases = append(releases, sums)
	}
	if !slices.Equal(releases[0], releases[1]) || len(releases[0]) != 10 {
		t.Errorf("the files are\n%v\nand\n%v", releases[0], releases[1])
	}
}

func command(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", c, err, out)
	} else {
		t.Logf("%s\n%s", c, out)
	}
}
