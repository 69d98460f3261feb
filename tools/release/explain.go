package main

import (
	"io"
	"text/template"
)

// nextSteps is what needs a registry and a key, or an identity, and so is left to whoever has them (docs/releasing.md).
var nextSteps = template.Must(template.New("").Parse(`
{{.Dir}} has:
{{range .Files}}  {{.Name}}
{{end}}
image {{.Image}}
chart {{.Chart}}

To publish and sign them, with REGISTRY=registry.example.com/kubecdc and SIGN="--key /path/to/cosign.key" (docs/releasing.md):

make publish VERSION={{.Version}} REGISTRY=$REGISTRY
cd {{.Dir}}
cosign sign $SIGN $REGISTRY/exporter@{{.Image}}
cosign attest $SIGN --type slsaprovenance1 --predicate {{.Predicate}} $REGISTRY/exporter@{{.Image}}
cosign attest $SIGN --type spdxjson --predicate {{.SBOM}} $REGISTRY/exporter@{{.Image}}
cosign sign $SIGN $REGISTRY/charts/kubecdc@{{.Chart}}
cosign sign-blob $SIGN --bundle SHA256SUMS.sigstore.json SHA256SUMS
`))

// explain prints what was made, and how it is published and signed.
func (r *release) explain(w io.Writer, dir string, m made) error {
	files, err := checksums(dir)
	if err != nil {
		return err
	}
	return nextSteps.Execute(w, map[string]any{"Dir": dir, "Files": files, "Version": r.version, "Image": m.image, "Chart": m.chart,
		"Predicate": r.predicateFile(), "SBOM": r.sbomFile()})
}
