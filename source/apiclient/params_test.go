package apiclient

import (
	"testing"

	"kubecdc/change"
)

// Which request sets resourceVersion and resourceVersionMatch how, and why: see params.go.
func TestParametersOfEachRequest(t *testing.T) {
	plain := change.NewStream(change.Resource{Version: "v1", Plural: "pods"}, "", "", "")
	chosen := change.NewStream(change.Resource{Version: "v1", Plural: "pods"}, "ns", "app=a", "status.phase=Running")
	for name, c := range map[string]struct{ got, want string }{
		"a list's first page is a consistent read: no version at all": {ListOptions{Limit: 500}.query(plain).Encode(), "limit=500"},
		"the next pages carry the version in their token":             {ListOptions{Limit: 500, Continue: "t", Exact: "7"}.query(plain).Encode(), "continue=t&limit=500"},
		"a watch starts exactly after its version": {watchParams(plain, "7", 300).Encode(),
			"allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=300&watch=1"},
		"a streaming list is a consistent read that goes on as a watch": {watchParams(chosen, "", 300).Encode(),
			"allowWatchBookmarks=true&fieldSelector=status.phase%3DRunning&labelSelector=app%3Da&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=300&watch=1"},
		"the past is read at one version and no other": {ListOptions{Exact: "7", Limit: 1}.query(plain).Encode(), "limit=1&resourceVersion=7&resourceVersionMatch=Exact"},
		"selectors are in every list":                  {ListOptions{Limit: 2, Continue: "t"}.query(chosen).Encode(), "continue=t&fieldSelector=status.phase%3DRunning&labelSelector=app%3Da&limit=2"},
		"selectors are in every watch":                 {watchParams(chosen, "7", 1).Encode(), "allowWatchBookmarks=true&fieldSelector=status.phase%3DRunning&labelSelector=app%3Da&resourceVersion=7&timeoutSeconds=1&watch=1"},
		"selectors are in every read of the past": {ListOptions{Exact: "7"}.query(chosen).Encode(),
			"fieldSelector=status.phase%3DRunning&labelSelector=app%3Da&resourceVersion=7&resourceVersionMatch=Exact"},
		"an object is read by its name":    {ListOptions{Name: "a"}.query(chosen).Encode(), "fieldSelector=metadata.name%3Da%2Cstatus.phase%3DRunning&labelSelector=app%3Da"},
		"a name is not read as a selector": {ListOptions{Name: `x,metadata.name!=\x`}.query(plain).Get("fieldSelector"), `metadata.name=x\,metadata.name!\=\\x`},
	} {
		if c.got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, c.got, c.want)
		}
	}
}
