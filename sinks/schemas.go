package sinks

import (
	"context"
	"time"
)

// ResourcesPath is the path of the list of resources.
const ResourcesPath = "resources"

// SchemaLog is a Sink that also stores schemas. It needs no slot.
type SchemaLog interface {
	// SchemaHashes returns the hash of the last schema of each path.
	SchemaHashes(ctx context.Context) (map[string]string, error)
	// WriteSchema makes a schema durable. It writes nothing if the last one of the path has the same hash. A schema always comes
	// after the last one, whatever the clock says.
	WriteSchema(ctx context.Context, s *Schema) error
}

// SchemaReader is a Reader of a log with schemas.
type SchemaReader interface {
	// Schema returns the document that a path had at a time. Before the first one it returns the first one. It returns nil if the
	// path has none.
	Schema(ctx context.Context, path string, moment time.Time) (document []byte, err error)
}

// Schema is an API server's OpenAPI v3 document of a version of a group. Or it is the list of the resources that an exporter
// selects, in JSON (change.APIResource).
type Schema struct {
	Path     string // apis/apps/v1, or ResourcesPath
	Hash     string // differs if the document does
	Since    time.Time
	Document []byte // compressed by gzip
}
