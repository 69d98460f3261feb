// Package discovery finds out what to export from an API server: its cluster's identity, its resources, and the resources that
// the patterns of KUBECDC_RESOURCES select. It also finds out whether a resource that the server does not show any more was
// removed. It reads no collections for export and knows nothing of positions.
package discovery

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/internal/wait"
	"kubecdc/source/apiclient"
)

// Server is the API server that is exported from.
type Server struct {
	// Namespaces are the only namespaces whose objects this user may list. Without one, all may be listed.
	Namespaces []string

	client *apiclient.Client
	config *rest.Config

	mu       sync.Mutex
	origins  map[string]origin // by group, of what was served since the start
	recorded map[string]bool   // groups that an aggregated API server served before (RecordAggregated)
}

// Connect prepares the connection to an API server. It makes no request.
func Connect(config *rest.Config) (*Server, error) {
	client, err := apiclient.New(config)
	if err != nil {
		return nil, err
	}
	return &Server{client: client, config: config, origins: map[string]origin{}, recorded: map[string]bool{}}, nil
}

func (d *Server) Client() *apiclient.Client { return d.client }

func (d *Server) Host() string { return d.client.Host() }

// discoveryTimeout bounds the time in which all documents are read.
const discoveryTimeout = 32 * time.Second

// Served reads which resources the server serves. It tries again after a Retry-After, up to discoveryTimeout. A group whose API
// server is down is no error: the result has the group as one that can't be read.
func (d *Server) Served(ctx context.Context) (Served, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	for {
		s, err := d.documents(ctx)
		if err == nil {
			return s, nil
		}
		if after := apiclient.RetryAfter(err); after == 0 || wait.For(ctx, after) != nil {
			return s, fmt.Errorf("ask the API server what it serves: %w", err)
		}
	}
}
