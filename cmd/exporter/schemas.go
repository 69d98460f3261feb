package main

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/change"
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
	var undescribed *schema.UndescribedError
	if err != nil && !errors.As(err, &undescribed) && !apierrors.IsNotFound(err) {
		return "", err
	}
	return schema.Avro(topic, object.Redact(redacted(s.redact, of))), nil
}
