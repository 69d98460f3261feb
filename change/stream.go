package change

import "strings"

// Resource is one kind of object that the API server serves, under the version that it is read by.
type Resource struct {
	Group      string // empty for the core group
	Version    string
	Plural     string // as in the URL: "deployments"
	Kind       string
	Namespaced bool
}

// ID names the resource without its version, as kubectl does: "pods", "deployments.apps".
func (r Resource) ID() string {
	if r.Group == "" {
		return r.Plural
	}
	return r.Plural + "." + r.Group
}

// ResourceOf gives the resource of a stream's id, as far as that tells: group and plural.
func ResourceOf(stream StreamID) Resource {
	id := string(stream)
	if i := strings.IndexAny(id, "@?"); i >= 0 {
		id = id[:i]
	}
	plural, group, _ := strings.Cut(id, ".")
	return Resource{Group: group, Plural: plural}
}

// APIVersion is the text of an object's apiVersion field: "v1", "apps/v1".
func (r Resource) APIVersion() string {
	if r.Group == "" {
		return r.Version
	}
	return r.Group + "/" + r.Version
}

// StreamID names a stream in checkpoints, control records and metrics: "pods", "pods@kube-system",
// "pods@default?labels=app=web&fields=…". The version of the resource is left out on purpose: when the version that is read
// changes, the stream goes on.
type StreamID string

// Stream is one watched collection: a resource, within one namespace or all, and selectors. It never changes: records
// that are on their way refer to it.
type Stream struct {
	Resource      Resource
	Namespace     string // empty for all
	LabelSelector string
	FieldSelector string
	id            StreamID
	fields        []byte // of the resource, as every record's envelope has them
}

// NewStream fills in the stream's id.
func NewStream(r Resource, namespace, labels, fields string) *Stream {
	s := &Stream{Resource: r, Namespace: namespace, LabelSelector: labels, FieldSelector: fields}
	s.id = s.makeID()
	s.fields = appendResource(nil, &s.Resource)
	return s
}

// As gives the same collection, read as another version of its resource.
func (s *Stream) As(r Resource) *Stream {
	return NewStream(r, s.Namespace, s.LabelSelector, s.FieldSelector)
}

// ParseStream takes an id apart. The version, the kind and the scope of the resource are not known from it.
func ParseStream(id StreamID) *Stream {
	collection, selectors, _ := strings.Cut(string(id), "?")
	name, namespace, _ := strings.Cut(collection, "@")
	r := Resource{}
	r.Plural, r.Group, _ = strings.Cut(name, ".")
	labels := ""
	if rest, ok := strings.CutPrefix(selectors, "labels="); ok { // no label selector has a & in it
		labels, selectors, _ = strings.Cut(rest, "&")
	}
	return NewStream(r, namespace, labels, strings.TrimPrefix(selectors, "fields="))
}

// StreamFromID gives a stream of which only the id is known, as it is read back from a sink or a checkpoint.
func StreamFromID(id StreamID) *Stream {
	return &Stream{id: id, fields: appendResource(nil, &Resource{})}
}

// ID returns the stream's id.
func (s *Stream) ID() StreamID { return s.id }

func (s *Stream) makeID() StreamID {
	var b strings.Builder
	b.WriteString(s.Resource.ID())
	if s.Namespace != "" {
		b.WriteString("@" + s.Namespace)
	}
	sep := "?"
	for _, p := range []struct{ name, value string }{{"labels", s.LabelSelector}, {"fields", s.FieldSelector}} {
		if p.value != "" {
			b.WriteString(sep + p.name + "=" + p.value)
			sep = "&"
		}
	}
	return StreamID(b.String())
}
