package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the uid and gid of the exporter in its image, the number that distroless images have for nonroot.
const user = 65532

// writeImageOf writes an image of binaries to a file.
func (r *release) writeImageOf(paths []string, file string) error {
	var binaries []binary
	for _, path := range paths {
		b, err := readBinary(path)
		if err != nil {
			return err
		}
		binaries = append(binaries, b)
	}
	index, err := r.images(binaries)
	if err != nil {
		return err
	}
	return r.writeImages(file, index, r.name+":"+r.version)
}

// images makes an image of each binary for Linux, in one index.
func (r *release) images(binaries []binary) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	none := true
	for _, b := range binaries {
		if b.os != "linux" {
			continue
		}
		none = false
		image, err := r.image(b)
		if err != nil {
			return nil, fmt.Errorf("make the image for %s: %w", b.platform(), err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: b.platform()}})
	}
	if none {
		return nil, errors.New("make an image: no binary for Linux is given")
	}
	return mutate.Annotations(index, r.labels()).(v1.ImageIndex), nil
}

func (r *release) image(b binary) (v1.Image, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	notices, err := r.notices([]binary{b})
	if err != nil {
		return nil, err
	}
	layer, err := fileSystem(program, notices, r.time)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "make release"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = b.os, b.arch, v1.Time{Time: r.time}
	config.Config = v1.Config{
		User: fmt.Sprintf("%d:%[1]d", user), WorkingDir: "/", Entrypoint: []string{"/exporter"}, Cmd: []string{"run"},
		Env: []string{"PATH=/"}, ExposedPorts: map[string]struct{}{"8080/tcp": {}}, Labels: r.labels(),
	}
	return mutate.ConfigFile(image, config)
}

// labels are the labels of each image, and the annotations of the index of all
// (https://specs.opencontainers.org/image-spec/annotations).
func (r *release) labels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       "kubecdc exporter",
		"org.opencontainers.image.description": "Change data capture for Kubernetes: every change of every object, in Kafka or Postgres",
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.licenses":    ownLicense,
		"org.opencontainers.image.revision":    r.commit,
		"org.opencontainers.image.created":     r.time.Format(time.RFC3339),
	}
	if r.source != "" {
		labels["org.opencontainers.image.source"] = r.source
	}
	return labels
}

// fileSystem is the image's only layer. The home folder is where a checkpoint in a file is by default, for those who just
// try the image.
func fileSystem(program, notices []byte, modified time.Time) (v1.Layer, error) {
	home := fmt.Sprintf("nonroot:x:%d:%[1]d:nonroot:/home/nonroot:/sbin/nologin\n", user)
	var b bytes.Buffer
	err := writeTar(&b, modified, []entry{
		{name: licensesFile, mode: 0o644, content: notices},
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", user)},
		{name: "etc/passwd", mode: 0o644, content: []byte("root:x:0:0:root:/root:/sbin/nologin\n" + home)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: certificates()},
		{name: "exporter", mode: 0o755, content: program},
		{name: "home/", mode: 0o755},
		{name: "home/nonroot/", mode: 0o700, owner: user},
		{name: "tmp/", mode: 0o1777},
	})
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}
