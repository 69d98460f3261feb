package observe

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"os"
	"strings"
)

// Access decides who may read what the HTTP server shows, all but whether the process lives and is ready.
type Access interface {
	// Allow returns nil if the bearer of the token may get the path, errUnknownToken or errNotAllowed if not, and any other error
	// if that could not be found out. The token is not empty.
	Allow(ctx context.Context, token, path string) error
}

var (
	errUnknownToken = errors.New("the token is not known here")
	errNotAllowed   = errors.New("the bearer of the token may not get this path")
)

// FileToken allows everything to the bearer of the token in a file, which is read for each request: so it can be rotated.
type FileToken struct{ Path string }

func (f FileToken) Allow(_ context.Context, token, _ string) error {
	text, err := os.ReadFile(f.Path)
	if err != nil {
		return err
	}
	want := strings.TrimSpace(string(text))
	if want == "" {
		return errors.New(f.Path + " is empty")
	}
	if a, b := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(want)); subtle.ConstantTimeCompare(a[:], b[:]) == 0 {
		return errUnknownToken
	}
	return nil
}

// bearer returns the request's token. A browser, which can't be made to send one, may send it as the password of any user.
func bearer(r *http.Request) string {
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	_, password, _ := r.BasicAuth()
	return password
}

// may is nil if who asks may get the path.
func may(a Access, r *http.Request, path string) error {
	if a == nil {
		return nil
	}
	token := bearer(r)
	if token == "" {
		return errUnknownToken
	}
	return a.Allow(r.Context(), token, path)
}

// guard passes on what is allowed.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := may(s.access, r, r.URL.Path)
		switch {
		case err == nil:
			next.ServeHTTP(w, r)
		case errors.Is(err, errUnknownToken):
			w.Header().Add("WWW-Authenticate", `Bearer realm="kubecdc"`)
			w.Header().Add("WWW-Authenticate", `Basic realm="kubecdc: any user, with the token as the password", charset="UTF-8"`)
			http.Error(w, "a bearer token is needed that is known here: see KUBECDC_HTTP_ACCESS", http.StatusUnauthorized)
		case errors.Is(err, errNotAllowed):
			http.Error(w, "the bearer of this token may not get "+r.URL.Path+": see KUBECDC_HTTP_ACCESS", http.StatusForbidden)
		default:
			s.log.Warn("a request could not be checked", "path", r.URL.Path, "error", err)
			http.Error(w, "the token can't be checked now: the exporter's log says why", http.StatusServiceUnavailable)
		}
	})
}
