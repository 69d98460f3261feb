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

// schemas makes the Avro schemas of records from what the API server says of its resources.
type schemas struct {
	server *discovery.Server
	redact []string // KUBECDC_REDACT
}

func (*schemas) Key(topic string) string { return schema.AvroKey(topic) }

// Value describes objects of which the API server knows no schema by what all objects have.
func (s *schemas) Value(ctx context.Context, topic string, of change.Resource) (string, error) {
	object := schema.Undescribed()
	document, err := s.server.OpenAPI(ctx, of)
	if err == nil {
		var described *schema.Type
		if described, err = schema.FromOpenAPI(document, of); err == nil {
			object = described
		}
	}
	if err != nil && !fault.Is[*schema.UndescribedError](err) && !apierrors.IsNotFound(err) {
		return "", err
	}
	return schema.Avro(topic, object.Redact(Redacted(s.redact, of))), nil
}

// Redacted returns the paths of KUBECDC_REDACT in a resource's objects.
func Redacted(entries []string, of change.Resource) (paths []string) {
	for _, entry := range entries {
		if resource, path, _ := strings.Cut(entry, ":"); resource == of.ID() {
			paths = append(paths, path)
		}
	}
	return paths
}
