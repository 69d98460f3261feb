package servers

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// askedPostgres is the release that a test asks for, such as 13.23.0, or empty for any release of this machine.
func askedPostgres() string { return os.Getenv("KUBECDC_TEST_POSTGRES") }

// fetchedPostgres is the folder of a Postgres from Maven Central.
func fetchedPostgres() string { return strings.TrimSuffix("postgres-"+askedPostgres(), "-") }

// fetchPostgres gets Postgres' server binaries from Maven Central into dir: a jar that holds a compressed tar.
func (i *installer) fetchPostgres(ctx context.Context, dir string) error {
	if err := i.ensure(ctx, javaTool, mvnTool, xzTool); err != nil {
		return err
	}
	return i.step("get Postgres from Maven Central", func() error {
		return replaceDir(dir, func(tmp string) error {
			jars := filepath.Join(tmp, "jars")
			defer os.RemoveAll(jars)
			properties := []string{"-Dplatform=" + postgresPlatform()}
			if release := askedPostgres(); release != "" {
				properties = append(properties, "-Drelease="+release)
			}
			if err := i.mavenJars(ctx, "postgres.xml", jars, properties...); err != nil {
				return err
			}
			return unpackJar(ctx, jars, tmp)
		})
	})
}

// postgresPlatform is this machine, as the jars' names call it.
func postgresPlatform() string {
	if runtime.GOARCH == "arm64" {
		return runtime.GOOS + "-arm64v8"
	}
	return runtime.GOOS + "-" + runtime.GOARCH
}

// unpackJar unpacks the compressed tar in the one jar of a folder.
func unpackJar(ctx context.Context, jars, to string) error {
	found, _ := filepath.Glob(filepath.Join(jars, "embedded-postgres-binaries-*.jar"))
	if len(found) != 1 {
		return fmt.Errorf("unpack Postgres: %d jars in %s, want 1", len(found), jars)
	}
	jar, err := zip.OpenReader(found[0])
	if err != nil {
		return fmt.Errorf("unpack Postgres: %w", err)
	}
	defer jar.Close()
	packed, err := fs.Glob(jar, "*.txz")
	if err != nil || len(packed) != 1 {
		return fmt.Errorf("unpack Postgres: %v in %s, want one .txz (%w)", packed, found[0], err)
	}
	text, err := fs.ReadFile(jar, packed[0])
	if err != nil {
		return fmt.Errorf("unpack Postgres: %w", err)
	}
	tar := exec.CommandContext(ctx, "tar", "-xJf", "-", "-C", to)
	tar.Stdin = bytes.NewReader(text)
	return run(tar)
}
