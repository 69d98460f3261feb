package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kubecdc/internal/rawjson"
	"kubecdc/query"
	"kubecdc/redact"
)

// A log has hashes in place of redacted values, as text. A typed client fails on a text if its own type has another type in that
// place, and then its complete list fails. So a hash in a field of bytes is served as the base64 of its text. Where the schema
// wants neither bytes nor any text, it is left out.

var hashPrefix = []byte(`"` + redact.HashPrefix)

// hashes makes the hashes in objects of a resource fit its schema.
type hashes struct {
	schema  func() (root json.RawMessage, components map[string]json.RawMessage, err error) // is read if a hash is found
	root    json.RawMessage
	parts   map[string]json.RawMessage
	leftOut map[string]string // paths of what was left out, with the type that was wanted
	bytes   map[string]bool   // paths of hashes in place of bytes, with * for the last name
	out     []byte
}

// metadataSchema and secretSchema have the members that are no mere text.
const (
	metadataSchema = `{"properties":{"labels":{"type":"object"},"annotations":{"type":"object"},"finalizers":{"type":"array"},"generation":{"type":"integer"},
		"creationTimestamp":{"type":"string","format":"date-time"},"deletionTimestamp":{"type":"string","format":"date-time"},
		"deletionGracePeriodSeconds":{"type":"integer"},
		"ownerReferences":{"type":"array","items":
			{"type":"object","properties":{"controller":{"type":"boolean"},"blockOwnerDeletion":{"type":"boolean"}}}},
		"managedFields":{"type":"array","items":{"type":"object","properties":{"time":{"type":"string","format":"date-time"},"fieldsV1":{"type":"object"}}}}}}`
	secretSchema = `{"properties":{"data":{"type":"object","additionalProperties":{"type":"string","format":"byte"}},"stringData":{"type":"object"},
		"immutable":{"type":"boolean"}}}`
)

// hashesOf returns the hashes of a resource at the request's moment.
func (s *Server) hashesOf(ctx context.Context, q *request, resource *served) *hashes {
	return &hashes{leftOut: map[string]string{}, bytes: map[string]bool{},
		schema: func() (json.RawMessage, map[string]json.RawMessage, error) {
			switch {
			case resource.ID() == "secrets":
				return json.RawMessage(secretSchema), nil, nil
			case resource.schema != nil:
				return resource.schema, nil, nil
			}
			document, err := s.stored(ctx, q, resource)
			if err != nil || document == nil {
				return json.RawMessage("{}"), nil, err
			}
			var parsed struct {
				Components struct{ Schemas map[string]json.RawMessage }
			}
			if err := json.Unmarshal(document, &parsed); err != nil {
				return nil, nil, fmt.Errorf("the log's schemas of %s: %w", resource.path(), err)
			}
			for _, schema := range parsed.Components.Schemas {
				var kinds struct {
					All []struct{ Group, Version, Kind string } `json:"x-kubernetes-group-version-kind"`
				}
				if bytes.Contains(schema, []byte(`"`+resource.Kind+`"`)) && json.Unmarshal(schema, &kinds) == nil &&
					len(kinds.All) == 1 &&
					kinds.All[0].Kind == resource.Kind && kinds.All[0].Group == resource.Group {
					return schema, parsed.Components.Schemas, nil
				}
			}
			return json.RawMessage("{}"), nil, nil
		}}
}

// fit makes the hashes in objects fit. It returns what a client would otherwise not notice.
func (h *hashes) fit(objects ...*query.Object) (hidden []string, err error) {
	for _, o := range objects {
		if !bytes.Contains(o.Body, hashPrefix) {
			continue
		}
		if h.root == nil {
			if h.root, h.parts, err = h.schema(); err != nil {
				return nil, err
			}
		}
		c := rawjson.NewCursor(o.Body)
		h.out = make([]byte, 0, len(o.Body)+len(o.Body)/2)
		h.value(&c, h.root, "")
		o.Body = h.out
	}
	for _, path := range slices.Sorted(maps.Keys(h.leftOut)) {
		hidden = append(hidden, fmt.Sprintf("%s is redacted, and its hash is no %s: it is left out", path, h.leftOut[path]))
	}
	for _, path := range slices.Sorted(maps.Keys(h.bytes)) {
		hidden = append(hidden, path+" is redacted: its bytes are the text of a hash")
	}
	return hidden, nil
}

// shape is the part of a schema that tells what a value may be.
type shape struct {
	Ref                  string `json:"$ref"`
	Type, Format         string
	AllOf                []json.RawMessage
	Properties           map[string]json.RawMessage
	AdditionalProperties json.RawMessage // or true
	Items                json.RawMessage
}

// shapeOf resolves a schema. An unknown one allows everything.
func (h *hashes) shapeOf(schema json.RawMessage) (s shape) {
	for range 8 { // references may form a loop
		s = shape{}
		_ = json.Unmarshal(schema, &s)
		switch {
		case s.Ref != "":
			name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
			if schema = h.parts[name]; strings.HasSuffix(name, ".Quantity") {
				return shape{Type: "quantity"}
			}
		case len(s.AllOf) == 1 && s.Type == "":
			schema = s.AllOf[0]
		default:
			return s
		}
	}
	return shape{}
}

// value copies a value, and reports false if it is left out.
func (h *hashes) value(c *rawjson.Cursor, schema json.RawMessage, path string) bool {
	start := *c
	raw := c.Skip()
	if !bytes.Contains(raw, hashPrefix) {
		h.out = append(h.out, raw...)
		return true
	}
	s := h.shapeOf(schema)
	switch isText := s.Type == "string" && s.Format != "date-time"; {
	case raw[0] == '{' || raw[0] == '[':
		*c = start
		h.nested(c, s, path, raw)
	case !redact.HashText.Match(raw) || isText && s.Format != "byte" || s.Type == "":
		h.out = append(h.out, raw...)
	case isText:
		h.bytes[path[:strings.LastIndex(path, ".")+1]+"*"] = true
		h.out = append(base64.StdEncoding.AppendEncode(append(h.out, '"'), raw[1:len(raw)-1]), '"')
	default:
		h.leftOut[path] = cmp.Or(map[string]string{"date-time": "time"}[s.Format], s.Type)
		return false
	}
	return true
}

// nested copies the members of an object, or the elements of an array, without those that are left out.
func (h *hashes) nested(c *rawjson.Cursor, s shape, path string, raw []byte) {
	isArray := c.AtArray()
	c.Enter()
	h.out = append(h.out, raw[0])
	for isFirst := true; ; {
		before, inner, more, name := len(h.out), s.Items, false, []byte("*")
		if isArray {
			more = c.Element()
		} else {
			name, more = c.Member()
		}
		if !more {
			break
		}
		if !isFirst {
			h.out = append(h.out, ',')
		}
		if !isArray {
			h.out = fmt.Appendf(h.out, `"%s":`, name)
			inner = s.member(path, string(name))
		}
		if h.value(c, inner, strings.TrimPrefix(path+"."+string(name), ".")) {
			isFirst = false
		} else {
			h.out = h.out[:before]
		}
	}
	c.Leave()
	h.out = append(h.out, raw[len(raw)-1])
}

// member returns the schema of an object's member.
func (s *shape) member(path, name string) json.RawMessage {
	if path == "" && name == "metadata" {
		return json.RawMessage(metadataSchema)
	}
	if own := s.Properties[name]; own != nil {
		return own
	}
	return s.AdditionalProperties
}
