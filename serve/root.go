package serve

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	answers "kubecdc/answer"
	"kubecdc/internal/web"
	"kubecdc/page"
)

// isPage reports whether a browser asks for a page, or a dashboard for marks.
func (q *request) isPage(r *http.Request) bool {
	return q.path == "/" && strings.Contains(r.Header.Get("Accept"), "text/html") || q.path == marksPath
}

const marksPath = "/marks"

// Answers returns the log as the sender of a request may read it. All its answers follow the log together.
func (s *Server) Answers(r *http.Request) *answers.Log {
	return answers.New(s.log, s.views.follower.Moment, s.now, func(asked web.Asked) error { return web.May(s.access, r, asked) })
}

// page answers with a page. Each user may have one, and it has what he may read.
func (s *Server) page(w http.ResponseWriter, r *http.Request, q *request) error {
	if err := s.decided(r, q, web.MayGet(s.access, r, "/api")); err != nil { // which each user may
		return err
	}
	path, _, _ := strings.Cut(r.RequestURI, "?") // r.URL lacks the cluster
	root, moment, _ := strings.Cut(path, "/at/")
	moment, err := url.PathUnescape(strings.Trim(moment, "/"))
	if err != nil {
		return err
	}
	log := s.Answers(r)
	user := web.SenderOf(r.Context())
	if err := s.views.shown.Acquire(r.Context(), user, 1); err != nil {
		return err
	}
	defer s.views.shown.Release(user, 1)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Vary", "Accept")
	if q.path == marksPath {
		return page.Marks(w, r, log)
	}
	return page.Serve(w, r, log, strings.TrimRight(root, "/")+"/", moment)
}

// paths answers with the paths that are served, as an API server does at /.
func (s *Server) paths(w http.ResponseWriter, r *http.Request, q *request) error {
	c, err := inTurn(r.Context(), s.views, func() (catalog, error) { return s.catalog(r.Context(), q) })
	if err != nil {
		return err
	}
	all := []string{"/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"}
	for _, served := range c {
		if served.Group != "" {
			all = append(all, "/apis/"+served.Group, "/apis/"+served.Group+"/"+served.Version)
		}
	}
	slices.Sort(all)
	return reply(w, q.media, http.StatusOK, metav1.RootPaths{Paths: slices.Compact(all)})
}
