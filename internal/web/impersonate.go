package web

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
)

// impersonate sets the user that the headers impersonate. It fails with ErrNotAllowed if they name no user.
func impersonate(h http.Header, asked *Asked) error {
	asked.User, asked.UID = h.Get(authentication.ImpersonateUserHeader), h.Get(authentication.ImpersonateUIDHeader)
	asked.Groups = slices.Clone(h.Values(authentication.ImpersonateGroupHeader))
	for name, values := range h {
		if key, extra := strings.CutPrefix(name, authentication.ImpersonateUserExtraHeaderPrefix); extra {
			if asked.Extra == nil {
				asked.Extra = map[string]authorization.ExtraValue{}
			}
			if plain, err := url.PathUnescape(key); err == nil {
				key = plain
			}
			asked.Extra[strings.ToLower(key)] = values
		}
	}
	if asked.User == "" && (asked.UID != "" || len(asked.Groups)+len(asked.Extra) > 0) {
		return errors.Join(ErrNotAllowed, errors.New("a request that impersonates names a user"))
	}
	return nil
}

// impersonations returns the rights that are needed to impersonate a user with groups, UID and extra, as the API server requires
// them.
func impersonations(user *Asked) (rights []*authorization.ResourceAttributes) {
	add := func(group, resource, subresource, namespace, name string) {
		rights = append(rights, &authorization.ResourceAttributes{Verb: "impersonate", Group: group, Version: "v1",
			Resource:    resource,
			Subresource: subresource, Namespace: namespace, Name: name})
	}
	switch account, isAccount := strings.CutPrefix(user.User, accountPrefix); {
	case user.User == "":
		return nil
	case isAccount:
		namespace, name, _ := strings.Cut(account, ":")
		add("", "serviceaccounts", "", namespace, name)
	default:
		add("", "users", "", "", user.User)
	}
	for _, group := range user.Groups {
		add("", "groups", "", "", group)
	}
	if user.UID != "" {
		add(authentication.GroupName, "uids", "", "", user.UID)
	}
	for key, values := range user.Extra {
		for _, value := range values {
			add(authentication.GroupName, "userextras", key, "", value)
		}
	}
	return rights
}

const accountPrefix = "system:serviceaccount:"

// groupsOf returns the user's groups, with the groups that the API server adds to each impersonated user.
func groupsOf(user *Asked) []string {
	groups := slices.Clone(user.Groups)
	if account, isAccount := strings.CutPrefix(user.User, accountPrefix); isAccount && len(groups) == 0 {
		namespace, _, _ := strings.Cut(account, ":")
		groups = append(groups, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}
	every := "system:authenticated"
	if user.User == "system:anonymous" {
		every = "system:unauthenticated"
	}
	if !slices.Contains(groups, every) {
		groups = append(groups, every)
	}
	return groups
}
