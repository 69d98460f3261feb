package serve

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/query"
)

// request is a parsed request.
type request struct {
	target query.Target // or the zero value for the end of the log
	pinned bool         // the path names the moment
	path   string       // without the moment

	group, version, plural string // plural is empty for discovery
	namespace, name        string

	labels          labels.Selector
	fields          fields.Selector
	limit           int
	from            string // a page's continue token
	resourceVersion change.ResourceVersion
	match           string
	watch           bool
	bookmarks       bool
	initial         bool // sendInitialEvents
	form            form
	include         string // the part of an object in a row of a table: None, Metadata, Object
}

// form is how a client wants an answer.
type form struct {
	kind    string // Table, PartialObjectMetadata, PartialObjectMetadataList, APIGroupDiscoveryList, or empty for objects
	version string // the kind's version
}

// momentForms are the moments that a path may name.
const momentForms = moment.Times | moment.Versions | moment.Checkpoints

func (s *Server) parse(r *http.Request) (*request, error) {
	q := &request{path: r.URL.Path, form: acceptedForm(r.Header.Get("Accept"))}
	if text, isPinned := strings.CutPrefix(r.URL.EscapedPath(), "/at/"); isPinned {
		text, rest, _ := strings.Cut(text, "/")
		if text == "checkpoint" {
			slot, after, _ := strings.Cut(rest, "/")
			number, after, _ := strings.Cut(after, "/")
			text, rest = slot+"/"+number, after
		}
		text, err := url.PathUnescape(text)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		m, err := momentForms.Parse(text, s.now())
		if err != nil {
			return nil, apierrors.NewBadRequest("the moment in /at/" + text + ": " + err.Error())
		}
		if q.path, err = url.PathUnescape("/" + rest); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		q.target, q.pinned = query.TargetOf(m, false), true
	}
	if q.resource(strings.Split(strings.Trim(q.path, "/"), "/")); strings.Contains(q.plural+q.name, "/") {
		return nil, notFound("no such path: " + q.path)
	}
	return q, q.options(r.URL.Query())
}

// resource reads group, version and resource from a path (kubernetes.io/docs/reference/using-api/api-concepts).
func (q *request) resource(parts []string) {
	switch {
	case parts[0] == "api" && len(parts) > 1:
		q.version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 1:
		q.group, parts = parts[1], parts[2:]
		if len(parts) > 0 {
			q.version, parts = parts[0], parts[1:]
		}
	default:
		return
	}
	if len(parts) > 2 && parts[0] == "namespaces" && !slices.Contains([]string{"status", "finalize"}, parts[2]) {
		q.namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 0 {
		q.plural = parts[0]
	}
	if len(parts) > 1 {
		q.name = strings.Join(parts[1:], "/")
	}
}

// only returns the name of the objects that a request selects, or "" if it selects all names.
func (q *request) only() string {
	if q.name != "" {
		return q.name
	}
	name, _ := q.fields.RequiresExactMatch("metadata.name")
	return name
}

func (q *request) options(v url.Values) (err error) {
	if q.labels, err = labels.Parse(v.Get("labelSelector")); err != nil {
		return apierrors.NewBadRequest("labelSelector: " + err.Error())
	}
	if q.fields, err = fields.ParseSelector(v.Get("fieldSelector")); err != nil {
		return apierrors.NewBadRequest("fieldSelector: " + err.Error())
	}
	if text := v.Get("limit"); text != "" {
		if q.limit, err = strconv.Atoi(text); err != nil || q.limit < 0 {
			return apierrors.NewBadRequest("limit: " + text + " is no number of objects")
		}
	}
	q.resourceVersion, q.match, q.from = change.ResourceVersion(v.Get("resourceVersion")), v.Get("resourceVersionMatch"), v.Get("continue")
	if q.resourceVersion != "" && q.resourceVersion != "0" && !q.resourceVersion.Valid() {
		return apierrors.NewBadRequest("resourceVersion: " + string(q.resourceVersion) + " is none")
	}
	q.include = v.Get("includeObject")
	isSet := func(name string) bool { value, _ := strconv.ParseBool(v.Get(name)); return value }
	q.watch, q.bookmarks, q.initial = isSet("watch"), isSet("allowWatchBookmarks"), isSet("sendInitialEvents")
	return q.validate(v.Has("sendInitialEvents"))
}

// validate returns the API server's error for options that do not fit together.
func (q *request) validate(initial bool) error {
	o := &internalversion.ListOptions{Watch: q.watch, AllowWatchBookmarks: q.bookmarks, ResourceVersion: string(q.resourceVersion),
		ResourceVersionMatch: metav1.ResourceVersionMatch(q.match), Limit: int64(q.limit), Continue: q.from}
	if initial {
		o.SendInitialEvents = &q.initial
	}
	if wrong := validation.ValidateListOptions(o, true); len(wrong) > 0 && q.plural != "" && q.name == "" {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", wrong)
	}
	return nil
}

// acceptedForm returns the first form in an Accept header that can be served: application/json;as=Table;v=v1;g=meta.k8s.io.
func acceptedForm(accept string) (f form) {
	for media := range strings.SplitSeq(accept, ",") {
		parameters := map[string]string{}
		parts := strings.Split(media, ";")
		for _, p := range parts[1:] {
			name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
			parameters[name] = value
		}
		if kind := strings.TrimSpace(parts[0]); kind != "application/json" && kind != "*/*" {
			continue
		}
		wanted := parameters["as"]
		if slices.Contains([]string{"", "Table", "PartialObjectMetadata", "PartialObjectMetadataList", "APIGroupDiscoveryList"}, wanted) {
			return form{wanted, parameters["v"]}
		}
	}
	return f
}
