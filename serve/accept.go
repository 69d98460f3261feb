package serve

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The forms that a client may ask for in an Accept header, such as application/json;as=Table;v=v1;g=meta.k8s.io. A client names
// several, and gets the first that is served. Clients of Kubernetes 1.29 and before ask for discovery in an older version, and
// for plain lists after that.
var (
	plainForms  = []schema.GroupVersionKind{{}}
	objectForms = []schema.GroupVersionKind{{}, metav1.SchemeGroupVersion.WithKind("Table"), metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"),
		metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList")}
	discoveryForms = []schema.GroupVersionKind{{Group: "apidiscovery.k8s.io", Version: "v2", Kind: "APIGroupDiscoveryList"}}
)

// accept sets the form of the answer, or returns the API server's 406.
func (q *request) accept(header string) error {
	ok := true
	switch {
	case q.plural != "":
		q.form, ok = acceptedForm(header, objectForms)
	case q.path == "/api" || q.path == "/apis":
		if q.form, ok = acceptedForm(header, discoveryForms); !ok { // wherever it is in the header
			_, ok = acceptedForm(header, plainForms)
		}
	case q.version != "" || q.group != "":
		_, ok = acceptedForm(header, plainForms)
	}
	if !ok {
		return notAcceptable()
	}
	return nil
}

func notAcceptable() error {
	return refusal(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "only the following media types are accepted: application/json")
}

// acceptedForm returns the kind of the first acceptable form, in the API server's order, or "" for plain JSON.
func acceptedForm(header string, forms []schema.GroupVersionKind) (form string, ok bool) {
	for _, c := range goautoneg.ParseAccept(cmp.Or(header, "*/*")) {
		asked := schema.GroupVersionKind{Group: c.Params["g"], Version: c.Params["v"], Kind: c.Params["as"]}
		isJSON := c.SubType == "json" && c.Type == "application" || c.SubType == "*" && (c.Type == "application" || c.Type == "*")
		if isJSON && slices.Contains(forms, asked) {
			return asked.Kind, true
		}
	}
	return "", false
}
