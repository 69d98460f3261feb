package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// writeProvenance says from which source, with which parameters and by whom the files were made (https://slsa.dev/spec/v1.0/provenance).
// It writes an in-toto statement about the files and the image, and its predicate alone.
func (r *release) writeProvenance(dir string, binaries []binary, m made) error {
	subjects, err := checksums(dir)
	if err != nil {
		return err
	}
	statement := &intoto.Statement{Type: intoto.StatementTypeUri, PredicateType: "https://slsa.dev/provenance/v1"}
	for _, s := range subjects {
		statement.Subject = append(statement.Subject, &intoto.ResourceDescriptor{Name: s.Name, Digest: map[string]string{"sha256": s.Digest}})
	}
	statement.Subject = append(statement.Subject, &intoto.ResourceDescriptor{Name: r.name, Digest: map[string]string{"sha256": m.image.Hex}})
	predicate, err := r.predicate(binaries[0].info.GoVersion)
	if err != nil {
		return err
	}
	if err := writeMessage(filepath.Join(dir, r.predicateFile()), predicate); err != nil {
		return err
	}
	text, err := protojson.Marshal(predicate)
	if err != nil {
		return err
	}
	statement.Predicate = &structpb.Struct{}
	if err := protojson.Unmarshal(text, statement.Predicate); err != nil {
		return err
	}
	if err := statement.Validate(); err != nil {
		return fmt.Errorf("the provenance's statement is not valid: %w", err)
	}
	return writeMessage(filepath.Join(dir, r.provenanceFile()), statement)
}

func (r *release) predicate(goVersion string) (*provenance.Provenance, error) {
	parameters, err := structpb.NewStruct(map[string]any{"target": "release", "VERSION": r.version, "IMAGE": r.name, "SOURCE": r.source})
	if err != nil {
		return nil, err
	}
	source := &intoto.ResourceDescriptor{Name: "source", Digest: map[string]string{"gitCommit": r.commit}}
	if r.source != "" {
		source.Uri = "git+" + r.source + "@" + r.commit
	}
	p := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{BuildType: "urn:kubecdc:make-release:v1", ExternalParameters: parameters,
			ResolvedDependencies: []*intoto.ResourceDescriptor{source, {Uri: "pkg:golang/toolchain@" + goVersion}}},
		RunDetails: &provenance.RunDetails{Builder: &provenance.Builder{Id: r.builder}},
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("the provenance is not valid: %w", err)
	}
	return p, nil
}

// writeMessage writes a message as JSON. protojson's own spaces vary from build to build.
func writeMessage(file string, m proto.Message) error {
	text, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", " "); err != nil {
		return err
	}
	return os.WriteFile(file, append(b.Bytes(), '\n'), 0o644)
}
