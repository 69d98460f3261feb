package servers

import (
	"context"
	"embed"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
)

//go:embed maven/*.xml
var poms embed.FS

// pomVersion is the version of the first dependency of a POM of ours.
func pomVersion(name string) (string, error) {
	text, err := poms.ReadFile("maven/" + name)
	if err != nil {
		return "", err
	}
	var pom struct {
		Versions []string `xml:"dependencies>dependency>version"`
	}
	if err := xml.Unmarshal(text, &pom); err != nil || len(pom.Versions) == 0 {
		return "", fmt.Errorf("read %s: no version in it (%v)", name, err)
	}
	return pom.Versions[0], nil
}

// mavenJars copies the jars of a POM of ours, and all that they need, to dir.
func (i *installer) mavenJars(ctx context.Context, name, dir string) error {
	mvn, err := i.ensureMaven(ctx)
	if err != nil {
		return err
	}
	text, err := poms.ReadFile("maven/" + name)
	if err != nil {
		return err
	}
	pom := filepath.Join(dir, "pom.xml")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(pom, text, 0o644)); err != nil {
		return err
	}
	const plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
	return run(exec.CommandContext(ctx, mvn, "-q", "-B", "-f", pom, plugin, "-DoutputDirectory="+dir))
}

func (i *installer) ensureMaven(ctx context.Context) (string, error) {
	if _, err := i.ensureJava(ctx); err != nil {
		return "", err
	}
	if mvn, err := exec.LookPath("mvn"); err == nil {
		return mvn, nil
	}
	if err := i.apt(ctx, "maven"); err != nil {
		return "", fmt.Errorf("Maven (mvn) is not on PATH: %w", err)
	}
	return exec.LookPath("mvn")
}

func (i *installer) ensureJava(ctx context.Context) (string, error) {
	java, err := findJava()
	if err == nil {
		return java, nil
	}
	if aptErr := i.apt(ctx, "default-jre-headless"); aptErr != nil {
		return "", fmt.Errorf("%w: %w", err, aptErr)
	}
	return findJava()
}

// findJava is a Java that Kafka 4 runs on: JAVA_HOME's, or the one on PATH.
func findJava() (string, error) {
	java := filepath.Join(os.Getenv("JAVA_HOME"), "bin", "java")
	if os.Getenv("JAVA_HOME") == "" || !exists(java) {
		path, err := exec.LookPath("java")
		if err != nil {
			return "", fmt.Errorf("no Java: java is not on PATH and JAVA_HOME is not set (Kafka needs 17 or newer)")
		}
		java = path
	}
	return java, nil
}

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// checkJava asks a Java for its version, which takes it a moment.
func checkJava(ctx context.Context, java string) error {
	out, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	if err != nil {
		// macOS has a java that only says where to get one.
		return fmt.Errorf("%s does not run: %w: %s", java, err, lastLines(string(out), 1))
	}
	found := javaVersion.FindSubmatch(out)
	if found == nil {
		return fmt.Errorf("%s says no version: %s", java, lastLines(string(out), 1))
	}
	if n, _ := strconv.Atoi(string(found[1])); n < 17 {
		return fmt.Errorf("%s is Java %d: Kafka needs 17 or newer; set JAVA_HOME to one", java, n)
	}
	return nil
}

// mavenPlatform is this machine in the names of the Postgres jars.
func mavenPlatform() string { return runtime.GOOS + "-" + runtime.GOARCH }
