package serve

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/change"
	"kubecdc/query"
)

// token is where a page of a list begins.
type token struct {
	View  string // its id
	After string // the key of the last object of the page before
}

func parseToken(text string) (t token, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	if err != nil {
		return t, apierrors.NewBadRequest("continue: " + text + " is no token of this server")
	}
	return t, nil
}

func (t token) String() string {
	raw, _ := json.Marshal(t) // two texts
	return base64.RawURLEncoding.EncodeToString(raw)
}

// get answers one object.
func (s *Server) get(w http.ResponseWriter, r *http.Request, q *request, of *served, v *view) error {
	if err := v.has(q.resourceVersion, q.match); err != nil {
		return err
	}
	o, err := v.state.Object(of.ID(), change.ObjectKey(q.namespace, q.name))
	if err != nil {
		return err
	}
	if o == nil {
		return apierrors.NewNotFound(schema.GroupResource{Group: of.Group, Resource: of.Plural}, q.name)
	}
	switch q.form.as {
	case "Table":
		return s.table(w, q, of, v, []*query.Object{o}, metav1.ListMeta{ResourceVersion: string(o.ResourceVersion)})
	case "PartialObjectMetadata":
		return reply(w, http.StatusOK, partial(of, o))
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(append(o.Body, '\n'))
	return err
}

// has returns an error unless the view answers for a version.
func (v *view) has(version change.ResourceVersion, match string) error {
	switch {
	case version == "" || version == "0":
		return nil
	case version.Compare(v.version) > 0:
		return apierrors.NewTimeoutError("Too large resource version: "+string(version)+", current: "+string(v.version), 1)
	case match == string(metav1.ResourceVersionMatchExact) && version != v.version:
		return apierrors.NewResourceExpired("the resourceVersion " + string(version) + " is not the one of this moment: " + string(v.version))
	}
	return nil
}

func listMeta(v *view, next string, remaining *int64) metav1.ListMeta {
	return metav1.ListMeta{ResourceVersion: string(v.version), Continue: next, RemainingItemCount: remaining}
}

// page is a part of a list.
type page struct {
	objects   []*query.Object
	next      string
	remaining *int64 // not known with selectors
}

// page finds the objects of a request. Without a limit it has all.
func (v *view) page(q *request, of *served) (p page, err error) {
	keys := v.keys
	prefix := ""
	if q.namespace != "" {
		prefix = q.namespace + "/"
		from, _ := slices.BinarySearch(keys, prefix)
		keys = keys[from:]
		to, _ := slices.BinarySearchFunc(keys, prefix, func(key, prefix string) int {
			if strings.HasPrefix(key, prefix) {
				return -1
			}
			return 1
		})
		keys = keys[:to]
	}
	if q.from != "" {
		t, err := parseToken(q.from)
		if err != nil {
			return p, err
		}
		after, found := slices.BinarySearch(keys, t.After)
		if found {
			after++
		}
		keys = keys[after:]
	}
	matches, err := q.matcher(of)
	if err != nil {
		return p, err
	}
	last := ""
	for i, key := range keys {
		o, err := v.state.Object(of.ID(), key)
		if err != nil {
			return p, err
		}
		if matches != nil && !matches(o) {
			continue
		}
		if q.limit > 0 && len(p.objects) == q.limit {
			p.next = token{v.id, last}.String()
			if matches == nil {
				n := int64(len(keys) - i)
				p.remaining = &n
			}
			return p, nil
		}
		p.objects, last = append(p.objects, o), key
	}
	return p, nil
}

// list answers the objects of a namespace, or of all.
func (s *Server) list(w http.ResponseWriter, r *http.Request, q *request, of *served, v *view) error {
	if err := v.has(q.resourceVersion, q.match); err != nil {
		return err
	}
	p, err := v.page(q, of)
	if err != nil {
		return err
	}
	meta := listMeta(v, p.next, p.remaining)
	switch q.form.as {
	case "Table":
		return s.table(w, q, of, v, p.objects, meta)
	case "PartialObjectMetadataList":
		list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}, ListMeta: meta}
		for _, o := range p.objects {
			list.Items = append(list.Items, *partial(of, o))
		}
		return reply(w, http.StatusOK, list)
	}
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, 64<<10)
	head, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	if builtin()[of.ID()] == nil && p.next == "" { // as for all custom resources
		head = append([]byte(`{"continue":"",`), head[1:]...)
	}
	_, _ = out.WriteString(`{"kind":` + strconv.Quote(of.Kind+"List") + `,"apiVersion":` + strconv.Quote(of.APIVersion()) + `,"metadata":`)
	_, _ = out.Write(head)
	separator := `,"items":[`
	for _, o := range p.objects {
		_, _ = out.WriteString(separator)
		_, _ = out.Write(of.item(o.Body))
		separator = ","
	}
	if len(p.objects) == 0 {
		_, _ = out.WriteString(separator)
	}
	_, _ = out.WriteString("]}\n")
	return out.Flush() // the first error of all
}

// item is an object as a list has it: those of built-in resources have no type.
func (of *served) item(body []byte) []byte {
	if rest, typed := bytes.CutPrefix(body, []byte(`{"kind":"`+of.Kind+`","apiVersion":"`+of.APIVersion()+`",`)); typed && builtin()[of.ID()] != nil {
		return append([]byte("{"), rest...)
	}
	return body
}

// partial is an object's metadata.
func partial(of *served, o *query.Object) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	_ = json.Unmarshal(o.Body, m)     // a stub has a part of it
	if of.ID() == "daemonsets.apps" { // a field of the server's own type
		delete(m.Annotations, "deprecated.daemonset.template.generation")
	}
	m.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}
	return m
}
