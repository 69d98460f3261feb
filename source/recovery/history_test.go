package recovery

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/test/require"
)

var must = require.NoError

// Lists of small objects soon have large pages, since each page costs a count of all that follow, and those of large objects small ones.
func TestPagesFollowTheSizeOfTheBodies(t *testing.T) {
	for body, want := range map[int][]string{300: {"16", "500", "1000", "2000"}, 40_000: {"16", "104", "104", "104"}, 900_000: {"16", "4", "4", "4"}} {
		var limits []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			limit := r.URL.Query().Get("limit")
			if limit != "" {
				limits = append(limits, limit)
			}
			next := ""
			if limit != "" && r.URL.Query().Get("continue") == "" {
				next = "more"
			}
			fmt.Fprintf(w, `{"metadata":{"resourceVersion":"20","continue":%q},"items":[{"metadata":{"name":"a","namespace":"default","uid":"u",`+
				`"resourceVersion":"15"},"data":{"v":%q}}]}`, next, strings.Repeat("x", body))
		}))
		defer server.Close()
		client, err := apiclient.New(&rest.Config{Host: server.URL, QPS: -1})
		must(t, err)
		resource := change.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}
		h := NewExactReads(client, change.NewStream(resource, "", "", ""), false, nil, false, nil, nil)
		must(t, h.Objects(t.Context(), "", 20, 15, func(apiclient.Object) error { return nil }))
		for range 100 {
			if _, _, err := h.Object(t.Context(), "default/a", 20); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.Objects(t.Context(), "", 20, 15, func(o apiclient.Object) error {
			if o.Raw != nil {
				t.Error("the body of an object that is not newer is retained")
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(limits, want) {
			t.Errorf("with bodies of %d bytes the pages have the limits %v, want %v", body, limits, want)
		}
	}
}
