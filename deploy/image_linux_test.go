package deploy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"kubecdc/test/servers"
)

// TestTheImageIsSelfContained runs the exporter in the file system of its image, which is read-only, as a user without environment.
func TestTheImageIsSelfContained(t *testing.T) {
	root := image(t)
	makeReadOnly(t, root)
	for args, want := range map[string]string{
		"version": "kubecdc exporter",
		"check":   "KUBECDC_CHECKPOINT (--checkpoint): not set, and this user has no home folder",
	} {
		out, err := container(t, root, args).CombinedOutput()
		if !strings.Contains(string(out), want) {
			t.Errorf("exporter %s: %v\n%s", args, err, out)
		}
	}
}

// makeReadOnly prevents the image's user from writing anywhere, like readOnlyRootFilesystem.
func makeReadOnly(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return errors.Join(os.Chown(path, 0, 0), os.Chmod(path, 0o555))
	})
	must(t, err)
}

// image returns the file system of the image that make image makes.
func image(t *testing.T) (root string) {
	t.Helper()
	if testing.Short() {
		t.Skip("this test builds the image: make test runs it")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may change the root folder")
	}
	root = t.TempDir()
	blobs := map[string][]byte{}
	f, err := imageArchive()
	if err == nil {
		err = eachFile(bytes.NewReader(f), func(h *tar.Header, content []byte) error { blobs[h.Name] = content; return nil })
	}
	var manifest []struct{ Layers []string }
	if err == nil {
		err = json.Unmarshal(blobs["manifest.json"], &manifest)
	}
	if err != nil || len(manifest) != 1 || len(manifest[0].Layers) != 1 {
		t.Fatalf("%v, manifest %s", err, blobs["manifest.json"])
	}
	layer, err := gzip.NewReader(bytes.NewReader(blobs[manifest[0].Layers[0]]))
	if err == nil {
		err = eachFile(layer, func(h *tar.Header, content []byte) error { return extract(root, h, content) })
	}
	must(t, err)
	return root
}

// imageArchive returns the archive of the image, which it makes once for all tests.
var imageArchive = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "kubecdc-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program, archive := filepath.Join(dir, "exporter"), filepath.Join(dir, "image.tar")
	if err := goTool(".", "build", "-o", program, "kubecdc/cmd/exporter"); err != nil {
		return nil, err
	}
	if err := goTool("../tools/release", "run", ".", "-version", "v0.0.0-test", "-out", archive, "image", program); err != nil {
		return nil, err
	}
	return os.ReadFile(archive)
})

func goTool(dir string, args ...string) error {
	c := exec.Command("go", args...)
	c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func eachFile(archive io.Reader, visit func(*tar.Header, []byte) error) error {
	for files := tar.NewReader(archive); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(files)
		if err != nil {
			return err
		}
		if err := visit(h, content); err != nil {
			return err
		}
	}
}

// extract writes a file or folder of the image with its mode and its owner.
func extract(root string, h *tar.Header, content []byte) error {
	path := filepath.Join(root, h.Name)
	var err error
	if h.Typeflag == tar.TypeDir {
		err = os.Mkdir(path, 0o755)
	} else {
		err = os.WriteFile(path, content, 0o644)
	}
	if err == nil {
		err = os.Chmod(path, h.FileInfo().Mode())
	}
	if err == nil {
		err = os.Chown(path, h.Uid, h.Gid)
	}
	return err
}

// container runs the program of an image, as the image's user, for a minute at most.
func container(t *testing.T, root string, args ...string) *exec.Cmd {
	ctx, cancel := servers.Patient(t.Context())
	t.Cleanup(cancel)
	run := exec.CommandContext(ctx, "/exporter", args...)
	run.Dir, run.Env = "/", []string{}
	run.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	return run
}
