package kubeapi

import (
	"context"
	"regexp"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"
)

// RBACCommand returns the command that prints the rights for a user. user is the API server's name of the user, or "" if that is
// not known.
func RBACCommand(user string) string {
	namespace, name, isAccount := strings.Cut(strings.TrimPrefix(user, "system:serviceaccount:"), ":")
	switch {
	case user == "":
		return "exporter rbac"
	case isAccount && strings.HasPrefix(user, "system:serviceaccount:"):
		return "exporter rbac --name " + name + " --namespace " + namespace
	case plainWord.MatchString(user):
		return "exporter rbac --user " + user
	}
	return "exporter rbac --user '" + strings.ReplaceAll(user, "'", `'\''`) + "'"
}

var plainWord = regexp.MustCompile(`^[\w.@:/-]+$`)

// refusedUser is the user in an API server's answer 403.
var refusedUser = regexp.MustCompile(`User "([^"]+)" cannot `)

// RefusedUser returns the user that the text of an answer 403 names, or "".
func RefusedUser(text string) string {
	if found := refusedUser.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}

// UserOf returns the API server's name of the user, or "" if it does not say it: before Kubernetes 1.28.
func UserOf(ctx context.Context, config *rest.Config) string {
	client, err := Group(config, authentication.SchemeGroupVersion, authentication.AddToScheme)
	if err != nil {
		return ""
	}
	answer := &authentication.SelfSubjectReview{}
	if client.Post().Resource("selfsubjectreviews").Body(&authentication.SelfSubjectReview{}).Do(ctx).Into(answer) != nil {
		return ""
	}
	return answer.Status.UserInfo.Username
}
