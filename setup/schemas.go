package setup

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/schema"
	"kubecdc/source/discovery"
)

// schemas makes the Avro schemas of records from the API server's descriptions of its resources.
type schemas struct {
	server *discovery.Server
	redact []string // KUBECDC_REDACT
}

func (*schemas) Key(topic string) string { return schema.AvroKey(topic) }

// Value returns the schema of a resource's records. If the API server does not describe the resource, the schema only has what
// all objects have.
func (s *schemas) Value(ctx context.Context, topic string, resource change.Resource) (string, error) {
	object := schema.Undescribed()
	document, err := s.server.OpenAPI(ctx, resource)
	if err == nil {
		var described *schema.Type
		if described, err = schema.FromOpenAPI(document, resource); err == nil {
			object = described
		}
	}
	if err != nil && !fault.Is[*schema.UndescribedError](err) && !apierrors.IsNotFound(err) {
		return "", err
	}
	return schema.Avro(topic, object.Redact(Redacted(s.redact, resource))), nil
}

// Redacted returns the paths of KUBECDC_REDACT in a resource's objects.
func Redacted(entries []string, resource change.Resource) (paths []string) {
	for _, entry := range entries {
		if id, path, _ := strings.Cut(entry, ":"); id == resource.ID() {
			paths = append(paths, path)
		}
	}
	return paths
}
