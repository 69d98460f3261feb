package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
)

const (
	noAssertion = "NOASSERTION"
	ownLicense  = "Apache-2.0" // LICENSE
)

// sbom collects an SPDX document (https://spdx.github.io/spdx-spec/v2.3): the binaries and the image, and the modules that are
// linked into each binary, as the binary itself tells.
type sbom struct {
	doc      v2_3.Document
	seen     map[common.ElementID]bool
	licenses map[string]license // by path@version
}

// writeSBOM writes the SPDX document of a release as JSON.
func (r *release) writeSBOM(file string, binaries []binary, image v1.Hash) error {
	s := sbom{seen: map[common.ElementID]bool{}, doc: v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: "kubecdc " + r.version,
		DocumentNamespace: "https://spdx.org/spdxdocs/kubecdc-" + r.version + "-" + image.Hex,
		CreationInfo: &v2_3.CreationInfo{Created: r.time.Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "kubecdc-make-release"}}},
	}}
	own, _ := debug.ReadBuildInfo()
	modules := own.Deps
	for _, b := range binaries {
		modules = append(modules, b.modules()...)
	}
	var err error
	if s.licenses, err = licenses(modules); err != nil {
		return err
	}
	container := s.add(v2_3.Package{PackageName: r.name, PackageVersion: r.version, PrimaryPackagePurpose: "CONTAINER", PackageLicenseDeclared: ownLicense,
		PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: image.Hex}}}, "image", "")
	s.relate("DOCUMENT", common.TypeRelationshipDescribe, container)
	for _, m := range own.Deps {
		if m.Path == certificatesModule {
			s.relate(container, common.TypeRelationshipContains, s.module(m))
		}
	}
	for _, b := range binaries {
		if err := s.binary(r, b, container); err != nil {
			return err
		}
	}
	if err := spdxlib.ValidateDocument(&s.doc); err != nil {
		return fmt.Errorf("the SBOM is not valid: %w", err)
	}
	var text bytes.Buffer
	if err := json.Write(&s.doc, &text, json.Indent(" ")); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

// binary adds a binary with its modules. Those for Linux are in the image.
func (s *sbom) binary(r *release, b binary, container common.ElementID) error {
	digest, err := sha256Of(b.path)
	if err != nil {
		return err
	}
	name := filepath.Base(b.path)
	id := s.add(v2_3.Package{PackageName: name, PackageVersion: r.version, PackageFileName: name, PrimaryPackagePurpose: "APPLICATION", PackageLicenseDeclared: ownLicense,
		PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: digest}}}, "binary", "")
	s.relate("DOCUMENT", common.TypeRelationshipDescribe, id)
	if b.os == "linux" {
		s.relate(container, common.TypeRelationshipContains, id)
	}
	modules := append(b.modules(), &debug.Module{Path: "stdlib", Version: strings.TrimPrefix(b.info.GoVersion, "go")})
	slices.SortFunc(modules, func(a, b *debug.Module) int { return cmp.Compare(a.Path, b.Path) })
	for _, m := range modules {
		s.relate(id, common.TypeRelationshipDependsOn, s.module(m))
	}
	return nil
}

// module adds a Go module, with its package URL (https://github.com/package-url/purl-spec), by which scanners find known
// vulnerabilities.
func (s *sbom) module(m *debug.Module) common.ElementID {
	return s.add(v2_3.Package{PackageName: m.Path, PackageVersion: m.Version, PrimaryPackagePurpose: "LIBRARY",
		PackageLicenseDeclared: s.licenses[m.Path+"@"+m.Version].expression}, "module",
		"pkg:golang/"+m.Path+"@"+strings.ReplaceAll(m.Version, "+", "%2B"))
}

// add adds a package, unless it is there, and returns its id.
func (s *sbom) add(p v2_3.Package, kind, purl string) common.ElementID {
	p.PackageSPDXIdentifier = elementID(kind, p.PackageName, p.PackageVersion)
	if s.seen[p.PackageSPDXIdentifier] {
		return p.PackageSPDXIdentifier
	}
	s.seen[p.PackageSPDXIdentifier] = true
	p.PackageDownloadLocation, p.PackageLicenseConcluded, p.PackageCopyrightText = noAssertion, noAssertion, noAssertion
	p.PackageLicenseDeclared = cmp.Or(p.PackageLicenseDeclared, noAssertion)
	p.PackageSupplier = &common.Supplier{Supplier: noAssertion}
	if purl != "" {
		p.PackageExternalReferences = []*v2_3.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: purl}}
	}
	s.doc.Packages = append(s.doc.Packages, &p)
	return p.PackageSPDXIdentifier
}

func (s *sbom) relate(from common.ElementID, how string, to common.ElementID) {
	s.doc.Relationships = append(s.doc.Relationships, &v2_3.Relationship{Relationship: how,
		RefA: common.DocElementID{ElementRefID: from}, RefB: common.DocElementID{ElementRefID: to}})
}

// elementID makes an id of letters, digits, dots and dashes, which are all that SPDX allows.
func elementID(parts ...string) common.ElementID {
	return common.ElementID(strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' {
			return c
		}
		return '-'
	}, strings.Join(parts, "-")))
}
