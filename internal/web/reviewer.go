package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	authentication "k8s.io/api/authentication/v1"
)

// Reviewer answers for an API server what clients ask about themselves. The sender of the request must be known (May).
type Reviewer interface {
	// Who returns the user who sends a request, or an error as May does.
	Who(r *http.Request) (authentication.UserInfo, error)
	// Forward sends a review to a path of the API server, as the sender of the request would, and adds the answer to it.
	Forward(r *http.Request, path string, review any) error
}

func (r *Reviews) Who(request *http.Request) (who authentication.UserInfo, err error) {
	var asked Asked
	if err := impersonate(request.Header, &asked); err != nil {
		return who, err
	}
	ctx, cancel := context.WithTimeout(request.Context(), reviewTimeout)
	defer cancel()
	u, decision, failed := r.sender(ctx, bearer(request), &asked)
	who = authentication.UserInfo{Username: u.User, UID: u.UID, Groups: u.Groups, Extra: map[string]authentication.ExtraValue{}}
	for key, values := range u.Extra {
		who.Extra[key] = authentication.ExtraValue(values)
	}
	return who, errors.Join(decision, failed)
}

func (r *Reviews) Forward(request *http.Request, path string, review any) error {
	body, err := json.Marshal(review)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(request.Context(), reviewTimeout)
	defer cancel()
	leave, err := r.place(ctx, r.nameOf(bearer(request)))
	if err != nil {
		return err
	}
	defer leave()
	posted := r.asClient.Post().AbsPath(path).SetHeader("Authorization", "Bearer "+bearer(request)).SetHeader("Content-Type",
		"application/json").Body(body)
	for name, values := range request.Header {
		if strings.HasPrefix(name, "Impersonate-") {
			posted.SetHeader(name, values...)
		}
	}
	answered := posted.Do(ctx)
	if err := answered.Error(); err != nil { // with the API server's words
		return err
	}
	answer, err := answered.Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, review)
}
