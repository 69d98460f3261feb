package discovery

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/change"
)

// Readable lists one object of a stream, as an export does first. Only the API server knows whether it selects by these fields,
// and whether it can read its stored objects.
func (d *Server) Readable(ctx context.Context, s *change.Stream) error {
	_, err := d.client.First(ctx, s)
	return err
}

// Absent returns the namespaces that do not exist. It leaves out namespaces whose existence this user may not see.
func (d *Server) Absent(ctx context.Context, namespaces []string) (absent []string) {
	for _, ns := range namespaces {
		if _, err := d.client.Read(ctx, "/api/v1/namespaces/"+ns); apierrors.IsNotFound(err) {
			absent = append(absent, ns)
		}
	}
	return absent
}
