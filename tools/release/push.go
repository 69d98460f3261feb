package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// publish pushes the image and the chart of a release to a registry, with the login of docker login.
func (r *release) publish(ctx context.Context, dir, registry string) error {
	for file, place := range map[string]string{
		r.imageFile():       "/exporter:" + r.version,
		r.chartLayoutFile(): "/charts/kubecdc:" + r.chartVersion(),
	} {
		if err := push(ctx, filepath.Join(dir, file), registry+place); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "pushed", registry+place)
	}
	return nil
}

// push pushes the contents of an OCI layout in a tar archive, byte for byte, so its digest is the same.
func push(ctx context.Context, file, reference string) error {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "kubecdc-push-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := unpack(file, dir); err != nil {
		return fmt.Errorf("unpack %s: %w", file, err)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return fmt.Errorf("read the OCI layout in %s: %w", file, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) != 1 {
		return fmt.Errorf("%s has %d entries in its index, where a release has one", file, len(manifest.Manifests))
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if d := manifest.Manifests[0]; d.MediaType.IsIndex() {
		all, err := index.ImageIndex(d.Digest)
		if err != nil {
			return err
		}
		return remote.WriteIndex(ref, all, options...)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return err
	}
	return remote.Write(ref, image, options...)
}

// unpack unpacks one of the archives that writeTar has written.
func unpack(file, dir string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for files := tar.NewReader(f); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("it has a file outside of it: %s", h.Name)
		}
		if strings.HasSuffix(h.Name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = copyTo(path, files)
		}
		if err != nil {
			return err
		}
	}
}

func copyTo(path string, from io.Reader) error {
	to, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
