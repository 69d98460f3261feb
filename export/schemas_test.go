package export

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/export/plan"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
)

type storedSchemas map[string]string

func (s storedSchemas) SchemaHashes(context.Context) (map[string]string, error) {
	return maps.Clone(s), nil
}

func (s storedSchemas) WriteSchema(_ context.Context, schema *sinks.Schema) error {
	s[schema.Path] = schema.Hash
	return nil
}

// A group whose schema can't be read stops no other, and only what has changed is read.
func TestASchemaThatCantBeReadStopsNoOther(t *testing.T) {
	var read []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := strings.TrimPrefix(r.URL.Path, "/openapi/v3"); path {
		case "":
			var index []string
			for _, path := range []string{"apis/a.io/v1", "apis/b.io/v1", "apis/c.io/v1"} {
				index = append(index, fmt.Sprintf(`%q:{"serverRelativeURL":"/openapi/v3/%[1]s?hash=new"}`, path))
			}
			fmt.Fprintf(w, `{"paths":{%s}}`, strings.Join(index, ","))
		case "/apis/a.io/v1":
			http.Error(w, "no", http.StatusForbidden)
		default:
			read = append(read, path)
			fmt.Fprint(w, `{}`)
		}
	}))
	defer api.Close()
	server, err := discovery.Connect(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	log := storedSchemas{"apis/c.io/v1": "new"}
	s := schemas{&plan.Parts{Server: server}, log, nil}
	var resources []change.APIResource
	for _, group := range []string{"a.io", "b.io", "c.io"} {
		resources = append(resources, change.APIResource{Resource: change.Resource{Group: group, Version: "v1"}})
	}
	for range 2 {
		if err := s.store(t.Context(), resources); err == nil {
			t.Error("no error")
		}
	}
	if !slices.Equal(read, []string{"/apis/b.io/v1"}) || log["apis/b.io/v1"] != "new" || log[sinks.ResourcesPath] == "" {
		t.Errorf("%v was read, and %v is stored", read, log)
	}
}
