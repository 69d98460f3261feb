package serve

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/query/timeline"
)

// request is a parsed request.
type request struct {
	target timeline.Target // or the zero value for the end of the log
	pinned bool            // the path names the moment
	local  string          // the complete time, if the time in the path has no zone or no date
	path   string          // without the moment

	group, version, plural string // plural is empty for discovery
	namespace, name, part  string // part is a subresource
	isNamespaced, isWatch  bool   // by the path
	hasColumns             bool   // the client of a watch has the columns of its tables

	internalversion.ListOptions
	wrong error // why the request gets no answer, if its path exists
	media media // how the answer is written
	// how the client wants an answer: Table, PartialObjectMetadata, PartialObjectMetadataList, APIGroupDiscoveryList, or empty
	// for objects
	form    string
	include string // the part of an object in a row of a table: None, Metadata, Object
}

// momentForms are the moments that a path may name.
const momentForms = moment.Times | moment.Versions | moment.Checkpoints

func (s *Server) parse(r *http.Request) (*request, error) {
	q := everything()
	q.path = r.URL.Path
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
		q.target, q.pinned = timeline.TargetOf(m, false), true
		if m.IsLocal {
			q.local = text + " is read as " + m.Time.Format(time.RFC3339Nano) +
				", by the clock of the machine that serves the log"
		}
	}
	parts := strings.Split(strings.TrimRight(strings.TrimPrefix(q.path, "/"), "/"), "/")
	if slices.Contains([]string{"api", "apis", "version"}, parts[0]) {
		q.path = "/" + strings.Join(parts, "/")
	}
	if q.resource(parts); q.part != "" && (q.isWatch || q.name == "") || q.plural == "" && slices.Contains(parts[1:], "") {
		return nil, notFound("no such path: " + q.path)
	}
	q.wrong = q.options(r.URL.Query())
	if err := q.accept(r); err != nil {
		q.wrong = err
	}
	if text := q.path + q.only(); strings.ContainsRune(text, 0) || !utf8.ValidString(text) { // a database refuses such a text
		return nil, notFound("no such path or name: " + strconv.Quote(text))
	}
	return q, nil
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
	if len(parts) > 1 && parts[0] == "watch" { // the old form of ?watch=1
		q.isWatch, parts = true, parts[1:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" && !slices.Contains([]string{"status", "finalize"}, parts[2]) {
		q.isNamespaced, q.namespace, parts = true, parts[1], parts[2:]
	}
	if len(parts) > 0 {
		q.plural = parts[0]
	}
	if len(parts) > 1 {
		q.name, q.part = parts[1], strings.Join(parts[2:], "/")
	}
}

// everything returns a request that selects all objects at the end of the log.
func everything() *request {
	return &request{ListOptions: internalversion.ListOptions{LabelSelector: labels.Everything(),
		FieldSelector: fields.Everything()}}
}

// only returns the name of the objects that a request selects, or "" if it selects all names.
func (q *request) only() string {
	if q.name != "" {
		return q.name
	}
	name, _ := q.FieldSelector.RequiresExactMatch("metadata.name")
	return name
}

// askedVersion returns the version in a request, or "" if it has none.
func (q *request) askedVersion() change.ResourceVersion {
	if q.ResourceVersion == "0" {
		return ""
	}
	return change.ResourceVersion(q.ResourceVersion)
}

// wantsInitial reports whether a watch begins with the existing objects, and a bookmark after them (KEP-3157).
func (q *request) wantsInitial() bool { return q.SendInitialEvents != nil && *q.SendInitialEvents }

// isExact reports whether a request is for the state at its version.
func (q *request) isExact() bool { return q.ResourceVersionMatch == metav1.ResourceVersionMatchExact }

// options reads the parameters as an API server does, and returns its errors. A get has only a version.
func (q *request) options(v url.Values) error {
	if q.plural == "" {
		return nil
	}
	q.include = v.Get("includeObject")
	if q.name != "" && !q.isWatch {
		v = url.Values{"resourceVersion": v["resourceVersion"], "resourceVersionMatch": v["resourceVersionMatch"]}
	}
	if err := internalscheme.ParameterCodec.DecodeParameters(v, metav1.SchemeGroupVersion, &q.ListOptions); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if version := q.askedVersion(); version != "" && !version.Valid() {
		return apierrors.NewBadRequest("resourceVersion: " + q.ResourceVersion + " is none")
	}
	if q.name != "" && !q.isWatch {
		return nil
	}
	checked := q.ListOptions
	internalversion.SetListOptionsDefaults(&checked, true)
	if wrong := validation.ValidateListOptions(&checked, true); len(wrong) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", wrong)
	}
	if name, isExact := q.FieldSelector.RequiresExactMatch("metadata.name"); q.name != "" && !q.FieldSelector.Empty() &&
		(!isExact || name != q.name) {
		return apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
	}
	if q.Watch = q.Watch || q.isWatch; q.Watch {
		q.Continue = ""
	}
	return nil
}

// refused returns the API server's error for a request whose path exists. own says that the path is one of the API server's own
// resources, which do not allow HEAD.
func (q *request) refused(r *http.Request, own bool) error {
	if own && r.Method == http.MethodHead {
		return refusal(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
			"the server does not allow this method on the requested resource")
	}
	return q.wrong
}
