package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// loaded is an entry of manifest.json, by which Docker's older image store and podman load an image from a tar archive.
type loaded struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// writeImages writes an index of images as an OCI layout in a tar archive, which also has what docker load needs. Each platform has a
// tag of its own there, since that store has only one image for a tag.
func (r *release) writeImages(file string, index v1.ImageIndex, reference string) error {
	manifest, err := loadable(index, reference)
	if err != nil {
		return err
	}
	return r.writeLayout(file, reference, func(path layout.Path, names layout.Option) error {
		if err := path.WriteFile("manifest.json", manifest, 0o644); err != nil {
			return err
		}
		return path.AppendIndex(index, names)
	})
}

// writeLayout writes a tar archive of what add puts into an OCI layout.
func (r *release) writeLayout(file, reference string, add func(layout.Path, layout.Option) error) error {
	dir, err := os.MkdirTemp("", "kubecdc-layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	_, tag, _ := strings.Cut(reference, ":")
	names := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": reference})
	if err := add(path, names); err != nil {
		return fmt.Errorf("write the OCI layout of %s: %w", reference, err)
	}
	entries, err := readDir(dir)
	if err != nil {
		return err
	}
	return r.writeArchive(file, entries)
}

func loadable(index v1.ImageIndex, reference string) ([]byte, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var all []loaded
	for _, d := range manifest.Manifests {
		image, err := index.Image(d.Digest)
		if err != nil {
			return nil, err
		}
		m, err := image.Manifest()
		if err != nil {
			return nil, err
		}
		l := loaded{Config: blob(m.Config.Digest), RepoTags: []string{reference}}
		if len(manifest.Manifests) > 1 {
			l.RepoTags[0] += "-" + d.Platform.Architecture
		}
		for _, layer := range m.Layers {
			l.Layers = append(l.Layers, blob(layer.Digest))
		}
		all = append(all, l)
	}
	return json.Marshal(all)
}

func blob(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

func (r *release) writeArchive(file string, entries []entry) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := writeTar(f, r.time, entries); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", file, err)
	}
	return f.Close()
}
