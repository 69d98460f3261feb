package export

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"time"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/internal/wait"
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
	if newest, changed := selected.latest(); newest == nil {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
	s, logged := schemas{parts, log, nil}, ""
	wait.Every(ctx, poll, func() {
		newest, _ := selected.latest()
		reason, err := "", s.store(ctx, newest.Resources)
		if err != nil {
			reason = fault.Public(err)
		}
		if reason != "" && reason != logged && ctx.Err() == nil {
			parts.Logger.Warn("the log does not get the API server's schemas; retrying", "error", err)
		}
		logged = reason
	})
}

type schemas struct {
	*Parts
	log    sinks.SchemaLog
	stored map[string]string // hashes by path, nil before they are read
}

// store stores the schemas whose hash has changed. An API server that does not answer for one group stops no other.
func (s *schemas) store(ctx context.Context, resources []change.Resource) (unread error) {
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
			unread = cmp.Or(unread, err)
			continue
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
	return unread
}
