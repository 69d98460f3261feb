package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// The media types of a chart in a registry (https://helm.sh/docs/topics/registries).
const (
	chartConfigType  = types.MediaType("application/vnd.cncf.helm.config.v1+json")
	chartContentType = types.MediaType("application/vnd.cncf.helm.chart.content.v1.tar+gzip")
)

func (r *release) chartVersion() string    { return strings.TrimPrefix(r.version, "v") }
func (r *release) chartFile() string       { return "kubecdc-" + r.chartVersion() + ".tgz" }
func (r *release) chartLayoutFile() string { return "kubecdc-" + r.chartVersion() + "-chart.tar" }

// writeChart packs the Helm chart with the version of the release. It packs it as Helm does, and as an OCI layout, which can be copied
// to a registry as it is.
func (r *release) writeChart(ctx context.Context, dir string) (digest v1.Hash, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return digest, err
	}
	fmt.Fprintln(os.Stderr, "pack the Helm chart (the first time builds Helm: minutes)")
	helm := exec.CommandContext(ctx, "go", "tool", "-modfile=test/helm/go.mod", "helm", "package", "deploy/chart",
		"--version", r.chartVersion(), "--app-version", r.version, "--destination", dir)
	helm.Dir = r.root
	helm.Env = append(os.Environ(), "GOWORK=off", "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.time.Unix(), 10))
	if out, err := helm.CombinedOutput(); err != nil {
		return digest, fmt.Errorf("helm package deploy/chart: %w\n%s", err, out)
	}
	archive, err := os.ReadFile(filepath.Join(dir, r.chartFile()))
	if err != nil {
		return digest, err
	}
	artifact, err := newChartArtifact(archive, r.time)
	if err != nil {
		return digest, err
	}
	if err := r.writeChartLayout(filepath.Join(dir, r.chartLayoutFile()), artifact); err != nil {
		return digest, err
	}
	return artifact.Digest()
}

func (r *release) writeChartLayout(file string, artifact v1.Image) error {
	return r.writeLayout(file, "kubecdc:"+r.chartVersion(), func(path layout.Path, names layout.Option) error {
		return path.AppendImage(artifact, names)
	})
}

// chartArtifact is a packed chart as a registry has it: its config is Chart.yaml as JSON, its only layer the archive.
type chartArtifact struct {
	manifest []byte
	config   []byte
	layer    v1.Layer
}

func newChartArtifact(archive []byte, created time.Time) (v1.Image, error) {
	text, err := fileOfChart(archive, "Chart.yaml")
	if err != nil {
		return nil, err
	}
	a := chartArtifact{layer: static.NewLayer(archive, chartContentType)}
	if a.config, err = yaml.YAMLToJSON(text); err != nil {
		return nil, fmt.Errorf("read Chart.yaml: %w", err)
	}
	var chart struct{ Name, Version, Description string }
	if err := json.Unmarshal(a.config, &chart); err != nil {
		return nil, fmt.Errorf("read Chart.yaml: %w", err)
	}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Annotations: map[string]string{
		"org.opencontainers.image.title": chart.Name, "org.opencontainers.image.version": chart.Version,
		"org.opencontainers.image.description": chart.Description, "org.opencontainers.image.created": created.Format(time.RFC3339),
	}}
	for _, part := range []v1.Layer{static.NewLayer(a.config, chartConfigType), a.layer} {
		d, err := partial.Descriptor(part)
		if err != nil {
			return nil, err
		}
		manifest.Layers = append(manifest.Layers, *d)
	}
	manifest.Config, manifest.Layers = manifest.Layers[0], manifest.Layers[1:]
	if a.manifest, err = json.Marshal(manifest); err != nil {
		return nil, err
	}
	return partial.CompressedToImage(&a)
}

func (a *chartArtifact) RawConfigFile() ([]byte, error)                         { return a.config, nil }
func (a *chartArtifact) RawManifest() ([]byte, error)                           { return a.manifest, nil }
func (a *chartArtifact) MediaType() (types.MediaType, error)                    { return types.OCIManifestSchema1, nil }
func (a *chartArtifact) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return a.layer, nil }

// fileOfChart reads a file of a packed chart.
func fileOfChart(archive []byte, name string) ([]byte, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, fmt.Errorf("unpack the chart: %w", err)
	}
	files := tar.NewReader(unzipped)
	for {
		h, err := files.Next()
		if err != nil {
			return nil, fmt.Errorf("find %s in the chart: %w", name, err)
		}
		if _, file, _ := strings.Cut(h.Name, "/"); file == name {
			return io.ReadAll(files)
		}
	}
}
