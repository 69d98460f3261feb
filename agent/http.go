package agent

import (
	"errors"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	authorization "k8s.io/api/authorization/v1"

	"kubecdc/answer"
	"kubecdc/internal/web"
	"kubecdc/sinks"
)

// mostAtOnce is how many requests are answered at once, since all of a state is in memory. A user has half of them.
const mostAtOnce = 4

// Handler serves the tools over HTTP, without sessions. Who may ask, and for what, is decided as for the log's Kubernetes API.
func Handler(r sinks.Reader, version string, access web.Access) http.Handler {
	schemas, places, all := mcp.NewSchemaCache(), web.NewShares(mostAtOnce), answer.Follows(r)
	// Without a login only loopback names are served, and behind one a proxy may have any name.
	options := &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true}
	tools := mcp.NewStreamableHTTPHandler(func(request *http.Request) *mcp.Server {
		may := func(asked web.Asked) error { return web.May(access, request, asked) }
		return newServer(answer.New(r, all, time.Now, may), version, schemas)
	}, options)
	protected := http.NewCrossOriginProtection().Handler(tools)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// each user may have that
		known := web.Asked{NonResourceAttributes: &authorization.NonResourceAttributes{Path: "/api", Verb: "get"}}
		switch err := web.May(access, r, known); {
		case errors.Is(err, web.ErrUnknownToken):
			web.Challenge(w.Header())
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		case errors.Is(err, web.ErrNotAllowed):
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		case err != nil:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "the request can't be checked now", http.StatusServiceUnavailable)
			return
		}
		user := web.SenderOf(r.Context())
		if places.Acquire(r.Context(), user, 1) != nil {
			return // the client has left
		}
		defer places.Release(user, 1)
		protected.ServeHTTP(w, r)
	})
}
