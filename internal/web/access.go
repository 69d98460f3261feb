package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"os"
	"strings"

	authorization "k8s.io/api/authorization/v1"
)

// Asked is the right that a request needs: to a path or to a resource. User, groups, UID and extra are empty unless the bearer of
// the token impersonates another user.
type Asked = authorization.SubjectAccessReviewSpec

// Access decides who may read what a server serves.
type Access interface {
	// Allow returns nil if the bearer of the token has the right. It returns ErrUnknownToken or ErrNotAllowed if not, and any
	// other error if no decision could be made. The token is not empty.
	Allow(ctx context.Context, token string, asked Asked) error
}

var (
	ErrUnknownToken = errors.New("the token is not known here")
	ErrNotAllowed   = errors.New("the bearer of the token may not do this")
)

// FileToken allows everything to the bearer of the token in a file. The file is read for each request, so that the token can be
// rotated.
type FileToken struct{ Path string }

func (f FileToken) Allow(_ context.Context, token string, asked Asked) error {
	text, err := os.ReadFile(f.Path)
	if err != nil {
		return err
	}
	want := strings.TrimSpace(string(text))
	if want == "" {
		return errors.New(f.Path + " is empty")
	}
	if a, b := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(want)); subtle.ConstantTimeCompare(a[:], b[:]) == 0 {
		return ErrUnknownToken
	}
	if asked.User != "" {
		return ErrNotAllowed // that user's rights are not known here
	}
	return nil
}

// bearer returns the request's token. A browser can't be made to send a bearer token, so it may send it as the password of any
// user.
func bearer(r *http.Request) string {
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	if token, _ := socketToken(r); token != "" {
		return token
	}
	_, password, _ := r.BasicAuth()
	return password
}

// May returns nil if the sender of the request has the right, and otherwise the error of Access.Allow. It returns ErrCrowded if
// the sender has too many requests (Server.Long). If a is nil, every request is allowed except impersonation.
func May(a Access, r *http.Request, asked Asked) error {
	if err := impersonate(r.Header, &asked); err != nil {
		return err
	}
	if a == nil {
		if asked.User != "" {
			return ErrNotAllowed
		}
		return count(r, a)
	}
	token := bearer(r)
	if token == "" {
		return ErrUnknownToken
	}
	if err := a.Allow(r.Context(), token, asked); err != nil {
		return err
	}
	return count(r, a)
}

// MayGet is May for a path.
func MayGet(a Access, r *http.Request, path string) error {
	return May(a, r, Asked{NonResourceAttributes: &authorization.NonResourceAttributes{Path: path, Verb: "get"}})
}

// Challenge adds to an answer's header how to log in.
func Challenge(h http.Header) {
	h.Add("WWW-Authenticate", `Bearer realm="kubecdc"`)
	h.Add("WWW-Authenticate", `Basic realm="kubecdc: any user, with the token as the password", charset="UTF-8"`)
}
