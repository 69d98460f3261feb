package agent

import (
	"errors"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"kubecdc/answer"
	"kubecdc/internal/web"
)

// mostAtOnce is how many requests are answered at once, since all of a state is in memory. A user has half of them.
const mostAtOnce = 4

// Handler serves the tools over HTTP, without sessions. Who may ask, and for what, is decided as for the log's Kubernetes API.
// log returns the log as the sender of a request may read it.
func Handler(log func(*http.Request) *answer.Log, version string, access web.Access) http.Handler {
	schemas, places := mcp.NewSchemaCache(), web.NewShares(mostAtOnce)
	// Without a login only loopback names are served, and behind one a proxy may have any name.
	options := &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true}
	tools := mcp.NewStreamableHTTPHandler(func(request *http.Request) *mcp.Server {
		return newServer(log(request), version, schemas)
	}, options)
	protected := http.NewCrossOriginProtection().Handler(tools)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch err := web.MayGet(access, r, "/api"); { // which each user may
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
