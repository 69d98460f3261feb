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

// impersonate reads from the headers as whom the sender wants to act.
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

// impersonations are the rights that somebody needs who wants to act as a user with groups, UID and extra.
func impersonations(as *Asked) (rights []*authorization.ResourceAttributes) {
	add := func(group, resource, subresource, namespace, name string) {
		rights = append(rights, &authorization.ResourceAttributes{Verb: "impersonate", Group: group, Version: "v1", Resource: resource,
			Subresource: subresource, Namespace: namespace, Name: name})
	}
	switch account, is := strings.CutPrefix(as.User, accountPrefix); {
	case as.User == "":
		return nil
	case is:
		namespace, name, _ := strings.Cut(account, ":")
		add("", "serviceaccounts", "", namespace, name)
	default:
		add("", "users", "", "", as.User)
	}
	for _, group := range as.Groups {
		add("", "groups", "", "", group)
	}
	if as.UID != "" {
		add(authentication.GroupName, "uids", "", "", as.UID)
	}
	for key, values := range as.Extra {
		for _, value := range values {
			add(authentication.GroupName, "userextras", key, "", value)
		}
	}
	return rights
}

const accountPrefix = "system:serviceaccount:"

// groupsOf adds the groups that the API server gives to each user.
func groupsOf(as *Asked) []string {
	groups := slices.Clone(as.Groups)
	if account, is := strings.CutPrefix(as.User, accountPrefix); is && len(groups) == 0 {
		namespace, _, _ := strings.Cut(account, ":")
		groups = append(groups, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}
	every := "system:authenticated"
	if as.User == "system:anonymous" {
		every = "system:unauthenticated"
	}
	if !slices.Contains(groups, every) {
		groups = append(groups, every)
	}
	return groups
}
