package restore

import (
	"context"
	"encoding/json"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"kubecdc/internal/cells"
)

// Manager is the field manager of what is put back.
const Manager = "kubecdc-restore"

// Server writes to the API server, with the user's own rights.
type Server struct{ client *rest.RESTClient }

// NewServer returns a client of the API server.
func NewServer(config *rest.Config) (*Server, error) {
	known := runtime.NewScheme()
	metav1.AddToGroupVersion(known, schema.GroupVersion{Version: "v1"}) // answers that are errors have this version
	own := rest.CopyConfig(config)
	own.NegotiatedSerializer = serializer.NewCodecFactory(known)
	own.ContentType, own.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.UnversionedRESTClientFor(own)
	return &Server{client}, err
}

// Place is where the API server has an object.
type Place struct{ APIVersion, Resource, Namespace, Name string }

func (o *Place) collection() string {
	base := "/apis/" + o.APIVersion
	if !strings.Contains(o.APIVersion, "/") {
		base = "/api/" + o.APIVersion
	}
	if o.Namespace != "" {
		base += "/namespaces/" + o.Namespace
	}
	plural, _, _ := strings.Cut(o.Resource, ".")
	return base + "/" + plural
}

// Get returns an object, or nil if it does not exist.
func (s *Server) Get(ctx context.Context, o *Place) (map[string]any, error) {
	body, err := s.client.Get().AbsPath(o.collection(), o.Name).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return cells.Decoded(body), err
}

// Write creates an object, replaces it at the version of the state live, or deletes this state. It returns the server's answer.
func (s *Server) Write(ctx context.Context, o *Place, p *Plan, live map[string]any, dry bool) (map[string]any, error) {
	request, content := s.client.Post().AbsPath(o.collection()), p.Manifest
	switch p.Verb {
	case "replace":
		request = s.client.Put().AbsPath(o.collection(), o.Name)
		content = cells.Decoded([]byte(cells.Compact(p.Manifest)))
		assign(content, "metadata.resourceVersion", cells.MemberAt(live, "metadata.resourceVersion"))
		assign(content, "metadata.uid", cells.MemberAt(live, "metadata.uid"))
	case "delete":
		request = s.client.Delete().AbsPath(o.collection(), o.Name)
		content = map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
			"preconditions": map[string]any{"uid": cells.MemberAt(live, "metadata.uid"),
				"resourceVersion": cells.MemberAt(live, "metadata.resourceVersion")}}
		if dry { // with a body, the server ignores the parameter, and would delete
			content["dryRun"] = []string{"All"}
		}
	}
	body, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	if dry {
		request = request.Param("dryRun", "All")
	}
	if p.Verb != "delete" {
		request = request.Param("fieldManager", Manager)
	}
	answer, err := request.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	return cells.Decoded(answer), nil
}

// Manage gives an object the managers that it had. A write that changes values gives these values to the writer.
func (s *Server) Manage(ctx context.Context, o *Place, live map[string]any, managers any) error {
	assign(live, "metadata.managedFields", managers)
	body, err := json.Marshal(live)
	if err != nil {
		return err
	}
	return s.client.Put().AbsPath(o.collection(), o.Name).Param("fieldManager", Manager).
		SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx).Error()
}
