package serve

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/sinks"
)

// schemas answers requests for OpenAPI schemas of version 3, from which kubectl explain describes resources. A document is either
// built from CRDs or taken from the API server.
func (s *Server) schemas(w http.ResponseWriter, r *http.Request, q *request, c catalog, path string) error {
	if path == "" {
		paths := map[string]any{}
		for _, r := range c {
			paths[r.path()] = map[string]string{"serverRelativeURL": "/openapi/v3/" + r.path()}
		}
		return reply(w, media{}, http.StatusOK, map[string]any{"paths": paths})
	}
	if i := slices.IndexFunc(c, func(r *served) bool { return r.path() == path && r.schema == nil }); i >= 0 {
		document, err := s.stored(r.Context(), q, c[i])
		if err != nil {
			return err
		}
		if document != nil {
			return write(w, media{}, http.StatusOK, document)
		}
	}
	schemas, operations := map[string]any{}, map[string]any{}
	for _, r := range c {
		if r.path() == path {
			schema := r.openAPI()
			schemas[r.Kind] = schema
			operations["/"+path+"/"+r.Plural] = operationsOf(schema)
		}
	}
	if len(schemas) == 0 {
		return notFound("the log has no resource of " + path)
	}
	return reply(w, media{}, http.StatusOK, map[string]any{"openapi": "3.0.0",
		"info":  map[string]any{"title": "kubecdc", "version": "unversioned"},
		"paths": operations, "components": map[string]any{"schemas": schemas}})
}

// stored returns the document of a resource's version that the log has of the request's moment, or nil.
func (s *Server) stored(ctx context.Context, q *request, resource *served) (document []byte, err error) {
	v, err := s.allOf(ctx, q, resource.logged())
	if err != nil {
		return nil, err
	}
	return s.views.document(ctx, resource.path(), q.timeOf(v))
}

// timeOf returns the time of a request's moment. v is a view of that moment. If v is nil and the request names a version, the
// time is unknown: the zero time.
func (q *request) timeOf(v *view) time.Time {
	switch {
	case v == nil:
		return q.target.Happened
	case v.end != nil:
		return time.Now()
	}
	return v.time
}

// document returns a document of an API server that the log has of a moment, or the first one of later ones, or nil.
func (all *views) document(ctx context.Context, path string, moment time.Time) (document []byte, err error) {
	reader, hasSchemas := all.log.(sinks.SchemaReader)
	if !hasSchemas {
		return nil, nil
	}
	packed, err := reader.Schema(ctx, path, moment)
	if err != nil || packed == nil {
		return nil, err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(unpacked)
}

// operationsOf returns the operations of a path, with the kind of its objects. A patch will be refused like every write. It has
// parameters here, so that kubectl leaves validation to the server and shows the refusal.
func operationsOf(schema map[string]any) map[string]any {
	kind := schema[kindExtension].([]any)[0]
	parameters := []any{map[string]any{"name": "fieldValidation", "in": "query"}, map[string]any{"name": "dryRun", "in": "query"}}
	return map[string]any{"get": map[string]any{kindExtension: kind},
		"patch": map[string]any{kindExtension: kind, "parameters": parameters}}
}

const kindExtension = "x-kubernetes-group-version-kind"

// path returns the path of the resource's group and version.
func (r *served) path() string {
	if r.Group == "" {
		return "api/" + r.Version
	}
	return "apis/" + r.APIVersion()
}

// openAPI returns the schema of a custom resource. It adds the members that all objects have and a CRD leaves out.
func (r *served) openAPI() map[string]any {
	schema := map[string]any{"type": "object", "description": "The log has no schema of this resource: ask an API server to " +
		"explain it."}
	if r.schema != nil {
		schema = map[string]any{}
		_ = json.Unmarshal(r.schema, &schema) // can't fail: it was valid as part of the CRD
	}
	properties, _ := schema["properties"].(map[string]any)
	if properties == nil {
		properties = map[string]any{}
		schema["properties"] = properties
	}
	for member, text := range (metav1.TypeMeta{}).SwaggerDoc() {
		if member != "" {
			properties[member] = map[string]any{"type": "string", "description": text}
		}
	}
	properties["metadata"] = map[string]any{"type": "object",
		"description": (metav1.PartialObjectMetadata{}).SwaggerDoc()["metadata"]}
	schema[kindExtension] = []any{map[string]any{"group": r.Group, "version": r.Version, "kind": r.Kind}}
	return schema
}
