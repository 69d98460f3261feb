package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	spdx "github.com/spdx/tools-golang/json"
	"google.golang.org/protobuf/encoding/protojson"
)

// What the SBOM says of a binary is what the go command says.
func TestTheSBOMListsTheLinkedModules(t *testing.T) {
	r, file := testRelease, filepath.Join(t.TempDir(), "sbom.json")
	binaries := testBinaries(t)
	must(t, r.writeSBOM(file, binaries, v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}))
	text, err := os.ReadFile(file)
	must(t, err)
	doc, err := spdx.Read(bytes.NewReader(text))
	must(t, err)
	packages, declared := map[string]string{}, map[string]string{}
	for _, p := range doc.Packages {
		packages[string(p.PackageSPDXIdentifier)] = p.PackageName + " " + p.PackageVersion
		declared[p.PackageName] = p.PackageLicenseDeclared
	}
	for module, want := range map[string]string{"github.com/segmentio/kafka-go": "MIT", "k8s.io/apimachinery": "Apache-2.0",
		"go.yaml.in/yaml/v3": "Apache-2.0 AND MIT", certificatesModule: "BSD-3-Clause", r.name: ownLicense} {
		if declared[module] != want {
			t.Errorf("the licence of %s is %s, want %s", module, declared[module], want)
		}
	}
	for _, b := range binaries {
		binary := string(elementID("binary", filepath.Base(b.path), r.version))
		var got []string
		for _, d := range doc.Relationships {
			if d.Relationship == "DEPENDS_ON" && string(d.RefA.ElementRefID) == binary {
				got = append(got, packages[string(d.RefB.ElementRefID)])
			}
		}
		got = slices.DeleteFunc(got, func(p string) bool { return strings.HasPrefix(p, "stdlib ") })
		want := linkedModules(t, b)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", binary, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if !strings.Contains(string(text), `"pkg:golang/github.com/segmentio/kafka-go@v`) || !strings.Contains(string(text), certificatesModule) {
		t.Errorf("kafka-go or the certificates are missing in\n%s", text)
	}
}

// linkedModules asks the go command which modules a binary's packages are from.
func linkedModules(t *testing.T, b binary) []string {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", b.info.Path)
	list.Env = append(os.Environ(), "GOOS="+b.os, "GOARCH="+b.arch, "CGO_ENABLED=0", "GOWORK=off")
	if !strings.HasPrefix(b.info.Path, "kubecdc/tools/") {
		list.Dir = "../.."
	}
	out, err := list.Output()
	must(t, err)
	modules := strings.Split(strings.TrimSpace(string(out)), "\n")
	modules = slices.DeleteFunc(modules, func(line string) bool { return line == "" })
	slices.Sort(modules)
	return slices.Compact(modules)
}

func TestProvenanceAndChecksums(t *testing.T) {
	r, dir := testRelease, t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "exporter-v1.2.3-linux-amd64"), []byte("a program"), 0o755))
	image := v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("ab", 32)}
	binaries := testBinaries(t)
	must(t, r.writeProvenance(dir, binaries, made{image: image}))
	must(t, writeChecksums(dir))

	text, err := os.ReadFile(filepath.Join(dir, r.provenanceFile()))
	must(t, err)
	var statement intoto.Statement
	must(t, protojson.Unmarshal(text, &statement))
	must(t, statement.Validate())
	got := map[string]string{}
	for _, s := range statement.Subject {
		got[s.Name] = s.Digest["sha256"]
	}
	if got["exporter-v1.2.3-linux-amd64"] == "" || got["kubecdc/exporter"] != image.Hex {
		t.Errorf("the subjects are %v", got)
	}
	for _, want := range []string{`"gitCommit": "` + r.commit + `"`, `"git+https://git.example/kubecdc@` + r.commit, `"id": "https://ci.example"`, `"VERSION": "v1.2.3"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	check := exec.Command("sha256sum", "--check", "--strict", checksumsFile)
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 3 {
		t.Errorf("%v\n%s", err, out)
	}
}

// A version is released from a commit that has its heading in the CHANGELOG, and its image in the manifests.
func TestAReleaseIsAnnounced(t *testing.T) {
	r := testRelease
	r.root = t.TempDir()
	write := func(file, text string) {
		path := filepath.Join(r.root, file)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	files := map[string][2]string{
		"CHANGELOG.md":            {"## Unreleased\n\n## 1.2.2 - 2026-11-22\n", "## 1.2.3 - 2026-12-01\n\n## 1.2.2 - 2026-11-22\n"},
		"deploy/chart/Chart.yaml": {"appVersion: v1.2.2\n", "version: 1.2.3\nappVersion: v1.2.3\n"},
		"deploy/examples/kafka-postgres/kustomization.yaml": {"    newTag: v1.2.2\n", "    newTag: v1.2.3\n"},
	}
	for file, text := range files {
		write(file, text[1])
	}
	must(t, r.announced())
	for file, text := range files {
		write(file, text[0])
		if err := r.announced(); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s is of the version before: %v", file, err)
		}
		write(file, text[1])
	}
}

// A chart in a registry has the media types by which Helm knows it, and Chart.yaml as its config.
func TestTheChartInARegistry(t *testing.T) {
	chart := []byte("apiVersion: v2\nname: kubecdc\nversion: 1.2.3\nappVersion: v1.2.3\nkeywords: [cdc]\n")
	archive := packed(t, entry{name: "kubecdc/Chart.yaml", mode: 0o644, content: chart}, entry{name: "kubecdc/values.yaml", mode: 0o644})
	artifact, err := newChartArtifact(archive, testRelease.time)
	must(t, err)
	r, file := testRelease, filepath.Join(t.TempDir(), "chart.tar")
	must(t, r.writeChartLayout(file, artifact))
	image := throughRegistry(t, file, "charts/kubecdc:1.2.3")(v1.Platform{OS: "linux", Architecture: "amd64"})
	manifest, err := image.Manifest()
	must(t, err)
	if manifest.Config.MediaType != chartConfigType || len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != chartContentType {
		t.Errorf("%+v", manifest)
	}
	config, err := image.RawConfigFile()
	must(t, err)
	var got struct{ Name, Version, AppVersion string }
	must(t, json.Unmarshal(config, &got))
	if got.Name != "kubecdc" || got.Version != "1.2.3" || got.AppVersion != "v1.2.3" {
		t.Errorf("the config is %s", config)
	}
}

func packed(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	must(t, writeTar(zipped, testRelease.time, entries))
	must(t, zipped.Close())
	return b.Bytes()
}
