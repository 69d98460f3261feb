package compat

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// files are what consumers run: programs, statements and properties, with the versions of their packages. Programs in Go are read
// from their folders.
//
//go:embed flink python kafkajs console java connect maven duckdb
var files embed.FS

func read(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // the name is in this package
	}
	return string(text)
}

// localized is a file that names the broker, the registry and the topics of this trial in place of the pages'.
func (r reading) localized(text string) string {
	const registry = "https://registry.example.com:8081"
	apicurio := strings.TrimSuffix(r.t.registry.URL, "/apis/ccompat/v7") + "/apis/"
	return strings.NewReplacer("kafka-1:9092", r.t.brokers(), registry+"/apis/", apicurio, registry, r.t.registry.URL,
		"kubecdc.", r.log.Prefix+".").Replace(text)
}

// place writes a localized file into the reading's folder, and returns its path.
func (r reading) place(name, text string) (string, error) {
	path := filepath.Join(r.dir, filepath.Base(name))
	return path, os.WriteFile(path, []byte(r.localized(text)), 0o644)
}

// installed makes a folder with fill, once for each content of the file that pins its packages. It is made completely or not at all.
func installed(base, name, pins string, fill func(dir string) error) (dir string, err error) {
	hash := sha256.Sum256([]byte(pins))
	dir = filepath.Join(base, fmt.Sprintf("%s-%x", name, hash[:4]))
	if _, err := os.Stat(filepath.Join(dir, "complete")); err == nil {
		return dir, nil
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return "", err
	}
	if err := fill(dir); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "complete"), nil, 0o644)
}

// jars gets the jars of a POM of maven/ and all that they need, and unpacks the jars with the POM's files.
func jars(ctx context.Context, base, name string) (dir string, err error) {
	pom := read("maven/" + name + ".xml")
	return installed(base, name, pom, func(dir string) error {
		path := filepath.Join(dir, "pom.xml")
		if err := os.WriteFile(path, []byte(pom), 0o644); err != nil {
			return err
		}
		const plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:"
		args := []string{"-q", "-B", "-f", path, "-DoutputDirectory=" + dir, plugin + "copy-dependencies"}
		if strings.Contains(pom, "<mdep.unpack.includes>") {
			args = append(args, plugin+"unpack-dependencies")
		}
		_, err := output(ctx, dir, nil, "mvn", args...)
		return err
	})
}

// pinned is the version of an artifact in a POM of maven/.
func pinned(name, artifact string) string {
	version := regexp.MustCompile(`<artifactId>` + artifact + `</artifactId>\s*<version>([^<]+)`)
	found := version.FindStringSubmatch(read("maven/" + name + ".xml"))
	if found == nil {
		return "unknown"
	}
	return found[1]
}

// pythonPackages installs packages that are pinned in a file of python/, in a folder of their own.
func pythonPackages(ctx context.Context, base, name string) (dir string, err error) {
	pins := read("python/" + name + ".txt")
	return installed(base, name, pins, func(dir string) error {
		args := append([]string{"-m", "pip", "install", "-q", "--target", dir}, strings.Fields(pins)...)
		_, err := output(ctx, dir, nil, "python3", args...)
		return err
	})
}

// nodePackages installs packages, each named with its version.
func nodePackages(ctx context.Context, base, name string, packages ...string) (dir string, err error) {
	return installed(base, name, strings.Join(packages, " "), func(dir string) error {
		args := append([]string{"install", "--silent", "--no-audit", "--no-fund", "--prefix", dir}, packages...)
		_, err := output(ctx, dir, nil, "npm", args...)
		return err
	})
}

// debian installs a program with its package, where it is missing and this process may.
func debian(ctx context.Context, name string) error {
	if _, err := exec.LookPath(name); err == nil {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%s is missing: apt-get install %s", name, name)
	}
	if _, err := output(ctx, os.TempDir(), nil, "apt-get", "update", "-qq"); err != nil {
		return err
	}
	env := []string{"DEBIAN_FRONTEND=noninteractive"}
	_, err := output(ctx, os.TempDir(), env, "apt-get", "install", "-qq", "-y", "--no-install-recommends", name)
	return err
}
