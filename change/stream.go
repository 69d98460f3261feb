package change

import "strings"

// Resource is a resource of the API server, in the version in which it is read.
type Resource struct {
	Group      string // empty for the core group
	Version    string
	Plural     string // as in the URL: "deployments"
	Kind       string
	Namespaced bool
}

// APIResource is a resource with the names that discovery gives it.
type APIResource struct {
	Resource
	Singular   string   `json:"singular,omitempty"`
	Short      []string `json:"short,omitempty"`
	Categories []string `json:"categories,omitempty"`
}

// ID names the resource without its version, as kubectl does: "pods", "deployments.apps".
func (r Resource) ID() string {
	if r.Group == "" {
		return r.Plural
	}
	return r.Plural + "." + r.Group
}

// ResourceOf returns the resource of a stream id. Version, kind and scope are not part of the id and are empty.
func ResourceOf(stream StreamID) Resource {
	if original, ok := strings.CutPrefix(string(stream), snapshotPrefix); ok {
		return snapshotResource(ResourceOf(StreamID(original)))
	}
	collection, _, _ := strings.Cut(string(stream), "?")
	name, _, _ := strings.Cut(collection, "@")
	plural, group, _ := strings.Cut(name, ".")
	return Resource{Group: group, Plural: plural}
}

// APIVersion is the apiVersion of the resource's objects: "v1", "apps/v1".
func (r Resource) APIVersion() string {
	if r.Group == "" {
		return r.Version
	}
	return r.Group + "/" + r.Version
}

// StreamID identifies a stream in checkpoints, control records and metrics: "pods", "pods@kube-system",
// "pods@default?labels=app=web&fields=…". It has no version: the stream continues when another version of its resource is read.
type StreamID string

// Stream is one watched collection: a resource, in one namespace or in all, with selectors. It is immutable, since changes
// refer to it.
type Stream struct {
	Resource      Resource
	Namespace     string // empty for all
	LabelSelector string
	FieldSelector string
	id            StreamID
	fields        []byte // the resource's members of an envelope's source
	original      *Resource
}

// NewStream makes a stream and its id.
func NewStream(r Resource, namespace, labels, fields string) *Stream {
	s := &Stream{Resource: r, Namespace: namespace, LabelSelector: labels, FieldSelector: fields}
	s.id = s.makeID()
	s.fields = appendResource(nil, &s.Resource)
	return s
}

// As returns the same collection, read in another version of its resource.
func (s *Stream) As(r Resource) *Stream {
	return NewStream(r, s.Namespace, s.LabelSelector, s.FieldSelector)
}

// ParseStream returns the stream of an id, with the resource of ResourceOf.
func ParseStream(id StreamID) *Stream {
	if original, ok := strings.CutPrefix(string(id), snapshotPrefix); ok {
		return SnapshotOf(ParseStream(StreamID(original)))
	}
	collection, selectors, _ := strings.Cut(string(id), "?")
	_, namespace, _ := strings.Cut(collection, "@")
	labels := ""
	if rest, ok := strings.CutPrefix(selectors, "labels="); ok { // a label selector has no &
		labels, selectors, _ = strings.Cut(rest, "&")
	}
	return NewStream(ResourceOf(id), namespace, labels, strings.TrimPrefix(selectors, "fields="))
}

func (s *Stream) ID() StreamID { return s.id }

// Objects returns the resource of the stream's objects. The streams of SnapshotOf have another Resource, which names their topic.
func (s *Stream) Objects() *Resource {
	if s.original != nil {
		return s.original
	}
	return &s.Resource
}

// snapshotPrefix begins the ids of streams that SnapshotOf returns. No resource has a slash in its name.
const snapshotPrefix = "snapshot/"

// SnapshotOf returns the stream of on-demand snapshots of s, which read all objects of s again. Its records have the same form
// as the records of s, and are in the topic PREFIX.snapshot_of.RESOURCE. It has neither a position nor an inventory.
func SnapshotOf(s *Stream) *Stream {
	return &Stream{Resource: snapshotResource(s.Resource), id: snapshotPrefix + s.id, fields: s.fields,
		original: &s.Resource}
}

// snapshotPlural is the plural of no resource, since no plural has an underscore.
const snapshotPlural = "snapshot_of"

func snapshotResource(original Resource) Resource {
	return Resource{Plural: snapshotPlural, Group: original.ID()}
}

// IsSnapshot reports whether the stream is one that SnapshotOf returns.
func (id StreamID) IsSnapshot() bool { return strings.HasPrefix(string(id), snapshotPrefix) }

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
