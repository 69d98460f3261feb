package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/internal/web"
	"kubecdc/sinks"
)

// Clusters serves all clusters of one log. The path /clusters/NAME/… is for the cluster NAME, and other paths are for the
// server's cluster.
type Clusters struct {
	*Server
	open    func(cluster string) (sinks.ReadCloser, error)
	opening singleflight.Group // by cluster. A slow cluster does not delay the others
	mu      sync.Mutex
	logs    []sinks.ReadCloser // that are open
	all     map[string]*Server
}

// NewClusters returns a server of a cluster's log, which opens the logs of other clusters at their first request. The caller
// closes the server and the first log.
func NewClusters(log sinks.Reader, access web.Access, logger *slog.Logger,
	open func(cluster string) (sinks.ReadCloser, error)) *Clusters {
	return &Clusters{Server: New(log, access, logger), open: open, all: map[string]*Server{}}
}

// Close closes the logs that the server has opened.
func (c *Clusters) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, log := range c.logs {
		_ = log.Close()
	}
	return nil
}

func (c *Clusters) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, path, named := clusterOf(r.URL.EscapedPath())
	if !named {
		c.Server.ServeHTTP(w, r)
		return
	}
	r = r.Clone(r.Context())
	r.URL.RawPath = path
	r.URL.Path, _ = url.PathUnescape(path) // can't fail: it is a part of a valid path
	s, err := c.server(r, name)
	if err != nil {
		c.refuse(w, r, err)
		return
	}
	s.ServeHTTP(w, r)
}

// roots begin the paths of a server. They also end a cluster's name, which may have slashes that clients do not escape.
var roots = []string{"at", "api", "apis", "openapi", "version", "healthz", "livez", "marks", "readyz"}

// clusterOf divides a path into the name of a cluster and the rest.
func clusterOf(path string) (name, rest string, named bool) {
	text, named := strings.CutPrefix(path, "/clusters/")
	if !named {
		return "", path, false
	}
	parts := strings.Split(text, "/")
	n := slices.IndexFunc(parts, func(part string) bool { return slices.Contains(roots, part) })
	if n < 0 {
		n = len(parts)
	}
	name, err := url.PathUnescape(strings.Trim(strings.Join(parts[:n], "/"), "/"))
	return name, "/" + strings.Join(parts[n:], "/"), err == nil
}

// server returns the server of a cluster. It opens the cluster's log at the first request that may read it.
func (c *Clusters) server(r *http.Request, name string) (*Server, error) {
	q, err := c.parse(r)
	if err == nil {
		err = c.may(r, q, q.asked())
	}
	if err != nil {
		return nil, err
	}
	if strings.ContainsRune(name, 0) { // a database refuses such a text
		return nil, notFound("no cluster has such a name")
	}
	opened, err, _ := c.opening.Do(name, func() (any, error) { return c.opened(name) })
	if err != nil {
		return nil, err
	}
	return opened.(*Server), nil
}

// opened returns the server of a cluster, whose log it opens the first time.
func (c *Clusters) opened(name string) (*Server, error) {
	c.mu.Lock()
	s := c.all[name]
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	log, err := c.open(name)
	if errors.Is(err, sinks.ErrNoCluster) {
		return nil, notFound(fmt.Sprintf("the log has nothing of cluster %q", name))
	}
	if err != nil && !apierrors.IsForbidden(err) {
		c.slog.Warn("the log of another cluster can't be opened", "cluster", name, "error", err)
		err = apierrors.NewInternalError(errors.New("the log of this cluster can't be opened: the log of exporter serve " +
			"says why"))
	}
	if err != nil {
		return nil, err
	}
	s = New(log, c.access, c.slog)
	s.views.shared = c.views.shared
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logs, c.all[name] = append(c.logs, log), s
	return s, nil
}
