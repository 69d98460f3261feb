package servers

import (
	"archive/tar"
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ulikunitz/xz"
)

const fetchedPostgres = "postgres"

// fetchPostgres gets Postgres' server binaries from Maven Central into dir: a jar that holds a compressed tar.
func (i *installer) fetchPostgres(ctx context.Context, dir string) error {
	if err := i.ensure(ctx, javaTool, mvnTool); err != nil {
		return err
	}
	return i.step("get Postgres from Maven Central", func() error {
		return replaceDir(dir, func(tmp string) error {
			jars := filepath.Join(tmp, "jars")
			defer os.RemoveAll(jars)
			if err := i.mavenJars(ctx, "postgres.xml", jars, "-Dplatform="+postgresPlatform()); err != nil {
				return err
			}
			return unpackJar(jars, tmp)
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

func unpackJar(jars, to string) error {
	found, _ := filepath.Glob(filepath.Join(jars, "embedded-postgres-binaries-*.jar"))
	if len(found) != 1 {
		return fmt.Errorf("unpack Postgres: %d jars in %s, want 1", len(found), jars)
	}
	jar, err := zip.OpenReader(found[0])
	if err != nil {
		return fmt.Errorf("unpack Postgres: %w", err)
	}
	defer jar.Close()
	for _, f := range jar.File {
		if strings.HasSuffix(f.Name, ".txz") {
			return unpackTar(f, to)
		}
	}
	return fmt.Errorf("unpack Postgres: no .txz in %s", found[0])
}

func unpackTar(f *zip.File, to string) error {
	packed, err := f.Open()
	if err != nil {
		return fmt.Errorf("unpack Postgres: %w", err)
	}
	defer packed.Close()
	plain, err := xz.NewReader(packed)
	if err != nil {
		return fmt.Errorf("unpack Postgres: %w", err)
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return fmt.Errorf("unpack Postgres: %w", err)
	}
	defer root.Close()
	for entries := tar.NewReader(plain); ; {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = unpackEntry(root, entry, entries)
		}
		if err != nil {
			return fmt.Errorf("unpack Postgres: %w", err)
		}
	}
}

// unpackEntry writes one entry of a tar, never outside root.
func unpackEntry(root *os.Root, entry *tar.Header, body io.Reader) error {
	name := filepath.Clean(entry.Name)
	switch entry.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return root.Symlink(entry.Linkname, name)
	case tar.TypeReg:
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		f, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY, entry.FileInfo().Mode().Perm()|0o444)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, body)
		return errors.Join(err, f.Close())
	}
	return nil
}
