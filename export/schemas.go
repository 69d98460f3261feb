package export

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
)

// storeSchemas stores the schemas of the selected resources in a log that has a place for them. It does so at the start, and when they
// change. A custom resource has its schema in its CRD. Errors delay nothing else.
func storeSchemas(ctx context.Context, poll time.Duration, parts *Parts, selected *selections) {
	log, stores := parts.Sink.(sinks.SchemaLog)
	if !stores {
		return
	}
	s, failed := schemas{parts, log, nil}, ""
	for {
		newest, changed := selected.latest()
		if newest != nil {
			err := s.store(ctx, newest.Resources)
			if err == nil {
				failed = ""
			} else if ctx.Err() == nil && err.Error() != failed {
				failed = err.Error()
				parts.Logger.Warn("the log does not get the API server's schemas; retrying", "error", err)
			}
			changed = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-time.After(poll):
		}
	}
}

type schemas struct {
	*Parts
	log    sinks.SchemaLog
	stored map[string]string // hashes by path, nil before they are read
}

// store stores the schemas whose hash has changed.
func (s *schemas) store(ctx context.Context, resources []change.Resource) (err error) {
	hashes, err := s.Server.OpenAPIHashes(ctx)
	if err == nil && s.stored == nil {
		s.stored, err = s.log.SchemaHashes(ctx)
	}
	if err != nil {
		return err
	}
	for _, r := range resources {
		path := discovery.OpenAPIPath(r)
		if hashes[path] == "" || hashes[path] == s.stored[path] || s.Server.Custom(r.Group) {
			continue
		}
		document, err := s.Server.OpenAPI(ctx, r)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		w, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // fails only for an unknown level
		_, err = w.Write(document)
		if err = cmp.Or(err, w.Close()); err == nil {
			err = s.log.WriteSchema(ctx, &sinks.Schema{Path: path, Hash: hashes[path], Since: time.Now(), Document: packed.Bytes()})
		}
		if err != nil {
			return err
		}
		s.stored[path] = hashes[path]
	}
	return nil
}
