package serve

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/query"
	"kubecdc/query/timeline"
	"kubecdc/sinks"
)

// token is a continue token: it says where a page of a list begins.
type token struct {
	viewID
	After string // the last key of the previous page
	Left  int64  `json:",omitempty"` // how many objects follow, or 0 if they were not counted
}

func parseToken(text string) (t token, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	if err != nil || strings.ContainsRune(t.After, 0) {
		return t, apierrors.NewBadRequest("continue: " + text + " is no token of this server")
	}
	return t, nil
}

func (t token) String() string {
	raw, _ := json.Marshal(t) // can't fail: it has only texts
	return base64.RawURLEncoding.EncodeToString(raw)
}

// get answers with one object.
func (s *Server) get(w http.ResponseWriter, r *http.Request, q *request, resource *served, v *view) error {
	if err := v.has(q.askedVersion(), q.isExact()); err != nil {
		return err
	}
	found, memory, err := s.views.object(r.Context(), v, query.Within{Namespace: q.namespace, Name: q.name})
	if err != nil {
		return err
	}
	defer memory.shrink(0)
	for _, o := range found.Objects {
		resource.rename(o)
	}
	hidden, err := s.hashesOf(r.Context(), q, resource).fit(found.Objects...)
	if err != nil {
		return err
	}
	if warn(w, q, slices.Concat(s.doubts(v, found.Missing), hidden)); len(found.Objects) == 0 {
		return apierrors.NewNotFound(schema.GroupResource{Group: resource.Group, Resource: resource.Plural}, q.name)
	}
	if q.part == "scale" {
		if err = resource.toScale(found.Objects[0]); err != nil {
			return err
		}
		resource = resource.scales()
	}
	body, err := s.formOf(q, resource, v, found.Objects[0])
	if err != nil {
		return err
	}
	return write(w, q.media, http.StatusOK, body)
}

// formOf returns one object in the form that the client wants.
func (s *Server) formOf(q *request, resource *served, v *view, o *query.Object) ([]byte, error) {
	switch q.form {
	case "Table":
		return json.Marshal(s.table(q, resource, v, []*query.Object{o},
			metav1.ListMeta{ResourceVersion: string(o.ResourceVersion)}))
	case "PartialObjectMetadata":
		return json.Marshal(partial(resource, o))
	case "PartialObjectMetadataList":
		return nil, notAcceptable()
	}
	return o.Body, nil
}

// has returns an error unless the view answers for a version.
func (v *view) has(version change.ResourceVersion, exact bool) error {
	switch {
	case version == "":
		return nil
	case version.Compare(v.version) > 0 || exact && version.Compare(v.upTo) > 0:
		return apierrors.NewTimeoutError("Too large resource version: "+string(version)+", current: "+string(v.upTo), 1)
	case exact && version != v.version:
		return apierrors.NewResourceExpired("the resourceVersion " + string(version) + " is not the one of this moment: " +
			string(v.version))
	}
	return nil
}

// unlessRetained turns ErrNotRetained, and a version that stands for two states, into the API server's error 410. It returns
// other errors unchanged.
func unlessRetained(err error) error {
	if errors.Is(err, sinks.ErrNotRetained) || fault.Is[*timeline.TwoStatesError](err) {
		return expired(err)
	}
	return err
}

// list answers with the objects of a namespace, or of all namespaces.
func (s *Server) list(w http.ResponseWriter, r *http.Request, q *request, resource *served, v *view) error {
	if err := v.has(q.askedVersion(), q.isExact()); err != nil {
		return err
	}
	l, err := s.read(r.Context(), q, resource, v)
	if err != nil {
		return err
	}
	defer l.memory.shrink(0)
	if q.form == "PartialObjectMetadata" {
		return notAcceptable()
	}
	warn(w, q, slices.Concat(s.doubts(v, l.missing), l.hidden))
	meta := metav1.ListMeta{ResourceVersion: string(v.version), Continue: l.continued}
	if l.left > 0 {
		meta.RemainingItemCount = &l.left
	}
	switch q.form {
	case "Table":
		return s.writeTable(w, r, q, resource, l, meta)
	case "PartialObjectMetadataList":
		return s.writeMetadata(w, r, q, resource, l, meta)
	}
	head, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	if builtin()[resource.ID()] == nil && l.continued == "" { // the API server writes this for all custom resources
		head = append([]byte(`{"continue":"",`), head[1:]...)
	}
	head = fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, resource.Kind+"List",
		resource.APIVersion(), head)
	return s.write(r.Context(), w, q.media, l, head, func(some []*query.Object) (text []byte, err error) {
		for i, o := range some {
			if i > 0 {
				text = append(text, ',')
			}
			text = append(text, resource.item(o.Body)...)
		}
		return text, nil
	})
}

// writeTable answers with a table.
func (s *Server) writeTable(w http.ResponseWriter, r *http.Request, q *request, resource *served, l *listing,
	meta metav1.ListMeta) error {
	if needsAllRows(resource) || len(l.objects) == 0 {
		if l.rest != nil {
			return refusal(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge,
				"this table has no room in memory: set limit")
		}
		return reply(w, q.media, http.StatusOK, s.table(q, resource, l.view, l.objects, meta))
	}
	table := s.table(q, resource, l.view, nil, meta)
	table.Rows = []metav1.TableRow{}
	return s.fill(w, r, q, l, table, func(some []*query.Object) ([]byte, error) {
		return elements(s.rows(q, resource, l.view, some))
	})
}

// writeMetadata answers with a list of metadata.
func (s *Server) writeMetadata(w http.ResponseWriter, r *http.Request, q *request, resource *served, l *listing,
	meta metav1.ListMeta) error {
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList",
		APIVersion: "meta.k8s.io/v1"}, ListMeta: meta}
	if len(l.objects) == 0 {
		return reply(w, q.media, http.StatusOK, list)
	}
	list.Items = []metav1.PartialObjectMetadata{}
	return s.fill(w, r, q, l, list, func(some []*query.Object) ([]byte, error) {
		var items []*metav1.PartialObjectMetadata
		for _, o := range some {
			items = append(items, partial(resource, o))
		}
		return elements(items)
	})
}

// fill answers with a list that has no elements yet, and adds the elements at its end. encode returns some elements, with commas
// between them.
func (s *Server) fill(w http.ResponseWriter, r *http.Request, q *request, l *listing, empty any,
	encode func([]*query.Object) ([]byte, error)) error {
	head, err := json.Marshal(empty)
	if err != nil {
		return err
	}
	return s.write(r.Context(), w, q.media, l, bytes.TrimSuffix(head, []byte("]}")), encode)
}

// item returns an object as a list has it. Objects of built-in resources have no type there.
func (r *served) item(body []byte) []byte {
	if rest, typed := bytes.CutPrefix(body, []byte(`{"kind":"`+r.Kind+`","apiVersion":"`+r.APIVersion()+`",`)); typed &&
		builtin()[r.ID()] != nil {
		return append([]byte("{"), rest...)
	}
	return body
}

// partial returns an object's metadata.
func partial(resource *served, o *query.Object) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	_ = json.Unmarshal(o.Body, m)           // a stub has only a part of it
	if resource.ID() == "daemonsets.apps" { // a field of the server's own type
		delete(m.Annotations, "deprecated.daemonset.template.generation")
	}
	m.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}
	return m
}
