package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// krew and Homebrew get the program in archives, one for each platform, where it is called kubectl-past. A manifest and a formula have the
// archives' digests.

const (
	pluginFile  = "kubectl-past"
	krewFile    = "past.yaml"
	formulaFile = "kubecdc.rb"
	purpose     = "Ask the cluster's log what was, what changed, and who did it"
	// noAddress stands for the public address of the files, which only the publisher knows.
	noAddress = "https://downloads.invalid/kubecdc"
)

// platformArchive is the archive of a platform.
type platformArchive struct {
	binary
	file, digest string
}

func (r *release) writePackages(dir string, binaries []binary, notices []byte) error {
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	var all []platformArchive
	for _, b := range binaries {
		program, err := os.ReadFile(b.path)
		if err != nil {
			return err
		}
		p := platformArchive{binary: b, file: fmt.Sprintf("kubecdc-%s-%s-%s.tar.gz", r.version, b.os, b.arch)}
		var archive bytes.Buffer
		zip := gzip.NewWriter(&archive) // without a name and a time
		err = writeTar(zip, r.time, []entry{{name: pluginFile, content: program, mode: 0o755}, {name: "LICENSE", content: license, mode: 0o644},
			{name: licensesFile, content: notices, mode: 0o644}})
		if err = cmp.Or(err, zip.Close()); err != nil {
			return err
		}
		path := filepath.Join(dir, p.file)
		if err := os.WriteFile(path, archive.Bytes(), 0o644); err != nil {
			return err
		}
		if p.digest, err = sha256Of(path); err != nil {
			return err
		}
		all = append(all, p)
	}
	return cmp.Or(os.WriteFile(filepath.Join(dir, krewFile), r.krew(all), 0o644),
		os.WriteFile(filepath.Join(dir, formulaFile), []byte(r.formula(all)), 0o644))
}

func (r *release) address(p *platformArchive) string {
	return cmp.Or(r.files, noAddress+"/"+r.version) + "/" + p.file
}

func (r *release) homepage() string { return cmp.Or(r.source, noAddress) }

// krew returns the manifest of the plugin (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest). JSON is YAML.
func (r *release) krew(all []platformArchive) []byte {
	type object = map[string]any
	platforms := []object{}
	for i := range all {
		p := &all[i]
		platforms = append(platforms, object{"selector": object{"matchLabels": object{"os": p.os, "arch": p.arch}}, "uri": r.address(p), "sha256": p.digest,
			"bin": pluginFile, "files": []object{{"from": pluginFile, "to": "."}, {"from": "LICENSE", "to": "."}, {"from": licensesFile, "to": "."}}})
	}
	text, _ := json.MarshalIndent(object{"apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin", "metadata": object{"name": "past"},
		"spec": object{"version": r.version, "homepage": r.homepage(), "shortDescription": purpose, "platforms": platforms,
			"description": "kubecdc logs every change of a cluster. This plugin has all of its commands:\n" +
				"kubectl past run, kubectl past history -n shop --since 1h, kubectl past --at 2h -- get pods."}}, "", "  ") // strings only
	return append(text, '\n')
}

// formula returns the formula of Homebrew (https://docs.brew.sh/Formula-Cookbook).
func (r *release) formula(all []platformArchive) string {
	var b strings.Builder
	fmt.Fprintf(&b, "class Kubecdc < Formula\n  desc %q\n  homepage %q\n  version %q\n  license \"Apache-2.0\"\n", purpose, r.homepage(), strings.TrimPrefix(r.version, "v"))
	for _, system := range [][2]string{{"darwin", "macos"}, {"linux", "linux"}} {
		fmt.Fprintf(&b, "\n  on_%s do\n", system[1])
		for i := range all {
			if p := &all[i]; p.os == system[0] {
				fmt.Fprintf(&b, "    on_%s do\n      url %q\n      sha256 %q\n    end\n", map[string]string{"amd64": "intel", "arm64": "arm"}[p.arch], r.address(p), p.digest)
			}
		}
		b.WriteString("  end\n")
	}
	fmt.Fprintf(&b, "\n  def install\n    bin.install %q\n    bin.install_symlink bin/%q => \"exporter\"\n  end\n\n", pluginFile, pluginFile)
	fmt.Fprintf(&b, "  test do\n    assert_match version.to_s, shell_output(\"#{bin}/exporter version\")\n  end\nend\n")
	return b.String()
}
