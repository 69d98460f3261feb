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
	"strconv"
	"strings"
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
func (i *installer) mavenJars(ctx context.Context, name, dir string, properties ...string) error {
	if err := i.ensure(ctx, javaTool, mvnTool); err != nil {
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
	args := append([]string{"-q", "-B", "-f", pom, plugin, "-DoutputDirectory=" + dir}, properties...)
	return run(exec.CommandContext(ctx, "mvn", args...))
}

// tool is a program that has to be on this machine.
type tool struct {
	name    string
	debian  string // the package that has it
	missing func() error
}

var (
	javaTool = tool{"java", "default-jre-headless", func() error { _, err := findJava(); return err }}
	mvnTool  = onPath("mvn", "maven")
	xzTool   = onPath("xz", "xz-utils") // tar unpacks with it
)

func onPath(name, debian string) tool {
	return tool{name, debian, func() error { _, err := exec.LookPath(name); return err }}
}

// ensure installs missing tools, or explains how to.
func (i *installer) ensure(ctx context.Context, tools ...tool) error {
	var names, packages []string
	for _, t := range tools {
		if t.missing() != nil {
			names, packages = append(names, t.name), append(packages, t.debian)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if err := i.apt(ctx, packages...); err != nil {
		return fmt.Errorf("%s not found: %w", strings.Join(names, " and "), err)
	}
	return nil
}

// findJava is a Java that Kafka 4 runs on: JAVA_HOME's, or the one on PATH.
func findJava() (string, error) {
	java := filepath.Join(os.Getenv("JAVA_HOME"), "bin", "java")
	if os.Getenv("JAVA_HOME") == "" || !exists(java) {
		path, err := exec.LookPath("java")
		if err != nil {
			return "", errors.New("no java on PATH, and JAVA_HOME does not name one (Kafka needs 17 or newer)")
		}
		java = path
	}
	return java, nil
}

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// checkJava runs a Java to get its version, which takes a moment.
func checkJava(ctx context.Context) error {
	java, err := findJava()
	if err != nil {
		return err
	}
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
