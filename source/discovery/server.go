// Package discovery finds out what to export from an API server: which cluster it is, what it serves, which of that the
// patterns of KUBECDC_RESOURCES select, and whether a resource that is not shown any more was removed. It reads no
// collections for export and knows nothing of positions.
package discovery

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/source/apiclient"
)

// Server is the API server that is exported from.
type Server struct {
	client *apiclient.Client
	config *rest.Config
}

// Connect prepares the connection to an API server; it makes no request.
func Connect(config *rest.Config) (*Server, error) {
	client, err := apiclient.New(config)
	if err != nil {
		return nil, err
	}
	return &Server{client, config}, nil
}

// Client returns the client that reads the API server, for those who list and watch.
func (d *Server) Client() *apiclient.Client { return d.client }

// Host returns the API server's address, for messages.
func (d *Server) Host() string { return d.client.Host() }

// discoveryTimeout bounds the reading of all documents.
const discoveryTimeout = 32 * time.Second

// Served asks the server what it serves, and asks again if the server says to come back later. The result names groups that
// fail; they are no error while others answer.
func (d *Server) Served(ctx context.Context) (Served, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	for {
		s, err := d.documents(ctx)
		if err == nil {
			return s, nil
		}
		wait := apiclient.RetryAfter(err)
		if wait == 0 {
			return s, fmt.Errorf("ask the API server what it serves: %w", err)
		}
		select {
		case <-ctx.Done():
			return s, fmt.Errorf("ask the API server what it serves: %w", err)
		case <-time.After(wait):
		}
	}
}
