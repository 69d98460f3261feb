package source

import (
	"testing"

	"kubecdc/change"
)

// Which request sets resourceVersion and resourceVersionMatch how, and why: see params.go.
func TestParametersOfEachRequest(t *testing.T) {
	plain := change.NewStream(change.Resource{Version: "v1", Plural: "pods"}, "", "", "")
	chosen := change.NewStream(change.Resource{Version: "v1", Plural: "pods"}, "ns", "app=a", "status.phase=Running")
	for name, c := range map[string]struct{ got, want string }{
		"a list's first page is a consistent read: no version at all": {listParams(plain, 500, "").Encode(), "limit=500"},
		"the next pages carry the version in their token":             {listParams(plain, 500, "t").Encode(), "continue=t&limit=500"},
		"a watch starts exactly after its version": {watchParams(plain, "7", 300).Encode(),
			"allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=300&watch=1"},
		"the past is read at one version and no other": {exactParams(plain, "7", 1).Encode(), "limit=1&resourceVersion=7&resourceVersionMatch=Exact"},
		"a streaming list is a consistent read that goes on as a watch": {initialParams(plain, 300).Encode(),
			"allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=300&watch=1"},
		"selectors are in every list":  {listParams(chosen, 2, "t").Encode(), "continue=t&fieldSelector=status.phase%3DRunning&labelSelector=app%3Da&limit=2"},
		"selectors are in every watch": {watchParams(chosen, "7", 1).Encode(), "allowWatchBookmarks=true&fieldSelector=status.phase%3DRunning&labelSelector=app%3Da&resourceVersion=7&timeoutSeconds=1&watch=1"},
		"selectors are in every read of the past": {exactParams(chosen, "7", 0).Encode(),
			"fieldSelector=status.phase%3DRunning&labelSelector=app%3Da&resourceVersion=7&resourceVersionMatch=Exact"},
	} {
		if c.got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, c.got, c.want)
		}
	}
}
