package export

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"kubecdc/change"
	"kubecdc/export/plan"
	"kubecdc/internal/fault"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
)

// storeSchemas stores the list of the selected resources, and their schemas, in a log that has a place for them. It does so
// whenever the selection may have changed. A custom resource has its schema in its CRD. Errors delay nothing else.
func storeSchemas(ctx context.Context, parts *plan.Parts, selected *plan.Selections) {
	log, stores := parts.Sink.(sinks.SchemaLog)
	if !stores {
		return
	}
	s, logged := schemas{parts, log, nil}, ""
	for {
		newest, changed := selected.Latest()
		if newest != nil {
			reason, err := "", s.store(ctx, newest.APIResources())
			if err != nil {
				reason = fault.Public(err)
			}
			if reason != "" && reason != logged && ctx.Err() == nil {
				parts.Logger.Warn("the log does not get the API server's schemas; retrying", "error", err)
			}
			logged = reason
		}
		select {
		case <-ctx.Done():
			return
		case <-changed: // each poll of the selection counts as a change
		}
	}
}

type schemas struct {
	*plan.Parts
	log    sinks.SchemaLog
	stored map[string]string // hashes by path, nil before they are read
}

// store stores what has changed. An API server that does not answer for one group stops no other.
func (s *schemas) store(ctx context.Context, resources []change.APIResource) (unread error) {
	list, err := json.Marshal(resources)
	if err == nil && s.stored == nil {
		s.stored, err = s.log.SchemaHashes(ctx)
	}
	if err == nil {
		err = s.write(ctx, sinks.ResourcesPath, fmt.Sprintf("%x", sha256.Sum256(list)), list)
	}
	if err != nil {
		return err
	}
	hashes, err := s.Server.OpenAPIHashes(ctx)
	if err != nil {
		return err
	}
	for _, r := range resources {
		path := discovery.OpenAPIPath(r.Resource)
		if hashes[path] == "" || hashes[path] == s.stored[path] || s.Server.Custom(r.Group) {
			continue
		}
		document, err := s.Server.OpenAPI(ctx, r.Resource)
		if err != nil {
			unread = cmp.Or(unread, err)
		} else if err = s.write(ctx, path, hashes[path], document); err != nil {
			return err
		}
	}
	return unread
}

// write writes a document unless it is stored.
func (s *schemas) write(ctx context.Context, path, hash string, document []byte) error {
	if s.stored[path] == hash {
		return nil
	}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // fails only for an unknown level
	_, err := w.Write(document)
	if err = cmp.Or(err, w.Close()); err == nil {
		err = s.log.WriteSchema(ctx, &sinks.Schema{Path: path, Hash: hash, Since: time.Now(), Document: packed.Bytes()})
	}
	if err == nil {
		s.stored[path] = hash
	}
	return err
}
