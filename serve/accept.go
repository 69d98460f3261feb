package serve

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The forms that a client may ask for in an Accept header, such as application/json;as=Table;v=v1;g=meta.k8s.io. A client names
// several, and gets the first that is served. Clients of Kubernetes 1.29 and before ask for discovery in an older version, and
// for plain lists after that.
var (
	plainForms  = []schema.GroupVersionKind{{}}
	objectForms = []schema.GroupVersionKind{{}, metav1.SchemeGroupVersion.WithKind("Table"),
		metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"),
		metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList")}
	discoveryForms = []schema.GroupVersionKind{{Group: "apidiscovery.k8s.io", Version: "v2", Kind: "APIGroupDiscoveryList"}}
)

// accept sets the form of the answer, and how it is written. It returns the API server's 406 if there is none.
func (q *request) accept(r *http.Request) error {
	forms := plainForms
	if q.plural != "" {
		forms = objectForms
	}
	isAccepted := false
	if q.path == "/api" || q.path == "/apis" && !strings.HasSuffix(r.URL.Path, "/") {
		q.form, q.media, isAccepted = accepted(r, discoveryForms) // wherever it is in the header
	}
	if !isAccepted {
		q.form, q.media, isAccepted = accepted(r, forms)
	}
	if q.path == "/version" {
		isAccepted = slices.ContainsFunc(clauses(r), isJSON)
	}
	if !isAccepted {
		return notAcceptable()
	}
	return nil
}

func clauses(r *http.Request) []goautoneg.Accept {
	return goautoneg.ParseAccept(cmp.Or(r.Header.Get("Accept"), "*/*"))
}

func isJSON(c goautoneg.Accept) bool {
	return c.Type == "application" && (c.SubType == "json" || c.SubType == "*") || c.Type == "*" && c.SubType == "*"
}

func notAcceptable() error {
	return refusal(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: application/json, application/json;stream=watch, application/yaml")
}

// accepted returns the kind of the first acceptable form, in the API server's order, or "" for plain objects, and how it is
// written.
func accepted(r *http.Request, forms []schema.GroupVersionKind) (form string, m media, ok bool) {
	for _, c := range clauses(r) {
		asked := schema.GroupVersionKind{Group: c.Params["g"], Version: c.Params["v"], Kind: c.Params["as"]}
		isYAML := c.Type == "application" && c.SubType == "yaml"
		stream, version := c.Params["stream"], c.Params["sv"] // "v1" is the version of options, which only objects have
		if (isJSON(c) && (stream == "" || stream == "watch") || isYAML && stream == "") && slices.Contains(forms, asked) &&
			(version == "" || version == "v1" && len(forms) == len(objectForms)) {
			return asked.Kind, media{isYAML: isYAML, isPretty: c.Params["pretty"] == "1" || wantsPretty(r)}, true
		}
	}
	return "", media{isPretty: true}, false
}
