package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/query"
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
	found, err := v.pages.Page(r.Context(), query.Within{Namespace: q.namespace, Name: q.name}, 1)
	if err != nil {
		return unlessRetained(err)
	}
	for _, o := range found.Objects {
		resource.rename(o)
	}
	leftOut, err := s.hashesOf(r.Context(), q, resource).fit(found.Objects...)
	if err != nil {
		return err
	}
	if warn(w, q, slices.Concat(s.doubts(v, found.Missing), leftOut)); len(found.Objects) == 0 {
		return apierrors.NewNotFound(schema.GroupResource{Group: resource.Group, Resource: resource.Plural}, q.name)
	}
	if q.part == "scale" {
		if err = resource.toScale(found.Objects[0]); err != nil {
			return err
		}
		resource = scales()
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
		return json.Marshal(s.table(q, resource, v, []*query.Object{o}, metav1.ListMeta{ResourceVersion: string(o.ResourceVersion)}))
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
		return apierrors.NewResourceExpired("the resourceVersion " + string(version) + " is not the one of this moment: " + string(v.version))
	}
	return nil
}

// page is a part of a list.
type page struct {
	objects []*query.Object
	next    string   // the continue token, or empty for the last page
	left    int64    // how many objects follow, or 0 if they were not counted
	missing []string // reasons why it may be incomplete
}

// objectsAtOnce is how many objects are read at a time.
const objectsAtOnce = 1000

// page returns the objects of a request, or all without a limit.
func (v *view) page(ctx context.Context, q *request, resource *served) (p page, err error) {
	matches, err := q.matcher(resource)
	if err != nil {
		return p, err
	}
	part := query.Within{Namespace: q.namespace, Name: q.only()}
	if q.Continue != "" {
		t, err := parseToken(q.Continue)
		if err != nil {
			return p, err
		}
		part.After, p.left = t.After, t.Left
	}
	n, limit := objectsAtOnce, int(q.Limit)
	if limit > 0 && limit < n && matches == nil {
		n = limit + 1
	}
	for last := ""; ; {
		found, err := v.pages.Page(ctx, part, n)
		if err != nil {
			return p, unlessRetained(err)
		}
		for _, m := range found.Missing {
			if !slices.Contains(p.missing, m) {
				p.missing = append(p.missing, m)
			}
		}
		for _, o := range found.Objects {
			resource.rename(o)
			switch {
			case matches != nil && !matches(o):
				continue
			case limit > 0 && len(p.objects) == limit:
				if p.left -= int64(limit); q.Continue == "" && matches == nil {
					part.After = last
					p.left, err = v.left(ctx, part)
				}
				p.left = max(0, p.left)
				p.next = token{v.viewID, last, p.left}.String()
				return p, err
			}
			p.objects, last = append(p.objects, o), change.ObjectKey(o.Namespace, o.Name)
		}
		if part.After = found.Next; part.After == "" {
			return p, nil
		}
	}
}

// left counts the objects of a part. It returns 0 if they are more than are read at a time: the count is only a help for clients.
func (v *view) left(ctx context.Context, part query.Within) (int64, error) {
	found, err := v.pages.Page(ctx, part, objectsAtOnce)
	if err != nil || found.Next != "" {
		return 0, unlessRetained(err)
	}
	return int64(len(found.Objects)), nil
}

// unlessRetained turns ErrNotRetained, and a version that stands for two states, into the API server's error 410. It returns
// other errors unchanged.
func unlessRetained(err error) error {
	if errors.Is(err, sinks.ErrNotRetained) || fault.Is[*query.TwoStatesError](err) {
		return expired(err)
	}
	return err
}

// list answers with the objects of a namespace, or of all namespaces.
func (s *Server) list(w http.ResponseWriter, r *http.Request, q *request, resource *served, v *view) error {
	if err := v.has(q.askedVersion(), q.isExact()); err != nil {
		return err
	}
	if q.Limit <= 0 || q.Limit > objectsAtOnce {
		if err := s.views.lists.Acquire(r.Context(), 1); err != nil {
			return err
		}
		defer s.views.lists.Release(1)
	}
	p, err := v.page(r.Context(), q, resource)
	if err != nil {
		return err
	}
	leftOut, err := s.hashesOf(r.Context(), q, resource).fit(p.objects...)
	if err != nil {
		return err
	}
	warn(w, q, slices.Concat(s.doubts(v, p.missing), leftOut))
	meta := metav1.ListMeta{ResourceVersion: string(v.version), Continue: p.next}
	if p.left > 0 {
		meta.RemainingItemCount = &p.left
	}
	switch q.form {
	case "Table":
		return reply(w, q.media, http.StatusOK, s.table(q, resource, v, p.objects, meta))
	case "PartialObjectMetadataList":
		list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}, ListMeta: meta}
		for _, o := range p.objects {
			list.Items = append(list.Items, *partial(resource, o))
		}
		return reply(w, q.media, http.StatusOK, list)
	case "PartialObjectMetadata":
		return notAcceptable()
	}
	encoder := q.media.encoder(w, http.StatusOK)
	out := bufio.NewWriterSize(encoder, 64<<10)
	head, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	if builtin()[resource.ID()] == nil && p.next == "" { // the API server writes this for all custom resources
		head = append([]byte(`{"continue":"",`), head[1:]...)
	}
	_, _ = out.WriteString(`{"kind":` + strconv.Quote(resource.Kind+"List") + `,"apiVersion":` + strconv.Quote(resource.APIVersion()) + `,"metadata":`)
	_, _ = out.Write(head)
	separator := `,"items":[`
	for _, o := range p.objects {
		_, _ = out.WriteString(separator)
		_, _ = out.Write(resource.item(o.Body))
		separator = ","
	}
	if len(p.objects) == 0 {
		_, _ = out.WriteString(separator)
	}
	_, _ = out.WriteString("]}\n")
	if err := out.Flush(); err != nil { // the first error of all
		return err
	}
	return encoder.Close()
}

// item returns an object as a list has it. Objects of built-in resources have no type there.
func (r *served) item(body []byte) []byte {
	if rest, typed := bytes.CutPrefix(body, []byte(`{"kind":"`+r.Kind+`","apiVersion":"`+r.APIVersion()+`",`)); typed && builtin()[r.ID()] != nil {
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
