package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// made has the digests of what goes to a registry.
type made struct {
	image v1.Hash // index of all platforms
	chart v1.Hash
}

// write writes all files of a release into the folder of its binaries.
func (r *release) write(ctx context.Context, dir string, binaries []binary) (m made, err error) {
	index, err := r.images(binaries)
	if err != nil {
		return m, err
	}
	if m.image, err = index.Digest(); err != nil {
		return m, err
	}
	if err := r.writeImages(filepath.Join(dir, r.imageFile()), index, r.name+":"+r.version); err != nil {
		return m, err
	}
	if m.chart, err = r.writeChart(ctx, dir); err != nil {
		return m, err
	}
	if err := r.writeSBOM(filepath.Join(dir, r.sbomFile()), binaries, m.image); err != nil {
		return m, err
	}
	notices, err := r.notices(binaries)
	if err != nil {
		return m, err
	}
	if err := os.WriteFile(filepath.Join(dir, licensesFile), notices, 0o644); err != nil {
		return m, err
	}
	if err := r.writePackages(dir, binaries, notices); err != nil {
		return m, err
	}
	if err := r.writeProvenance(dir, binaries, m); err != nil {
		return m, err
	}
	return m, writeChecksums(dir)
}

func (r *release) imageFile() string      { return "exporter-" + r.version + "-image.tar" }
func (r *release) sbomFile() string       { return "kubecdc-" + r.version + ".spdx.json" }
func (r *release) provenanceFile() string { return "kubecdc-" + r.version + ".intoto.json" }

// predicateFile has the provenance without its subjects: cosign attest adds the image as the subject.
func (r *release) predicateFile() string { return "kubecdc-" + r.version + ".slsa.json" }

const (
	checksumsFile = "SHA256SUMS"
	licensesFile  = "LICENSES.txt"
)

// writeChecksums writes the digests of all files in the format of sha256sum.
func writeChecksums(dir string) error {
	sums, err := checksums(dir)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, s := range sums {
		fmt.Fprintf(&b, "%s  %s\n", s.Digest, s.Name)
	}
	return os.WriteFile(filepath.Join(dir, checksumsFile), b.Bytes(), 0o644)
}

type checksum struct{ Name, Digest string }

// checksums are the SHA-256 of all files of a folder, by name.
func checksums(dir string) (all []checksum, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		digest, err := sha256Of(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, checksum{f.Name(), digest})
	}
	return all, nil
}

func sha256Of(path string) (string, error) {
	content, err := os.ReadFile(path)
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), err
}
