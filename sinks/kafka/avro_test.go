package kafka_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"kubecdc/change"
	"kubecdc/schema"
	"kubecdc/sinks/encoding/registry"
	"kubecdc/sinks/kafka"
	"kubecdc/test/servers"
	"kubecdc/test/sinktest"
)

// This is the contract in Avro, with a registry that stores schemas and refuses nothing.
func TestContractInAvro(t *testing.T) {
	t.Parallel()
	contractInAvro(t, newFakeRegistry(t).URL)
}

// The same with a real registry.
func TestRegistryInTheContract(t *testing.T) { contractInAvro(t, servers.SharedRegistry(t).URL) }

func contractInAvro(t *testing.T, url string) {
	c := fakeCluster(t)
	sinktest.Run(t, func(t *testing.T) sinktest.Place {
		p := place(inAvro(newConfig(t, c.ListenAddrs()), url, &described{}))
		p.Reordered, p.Brief = true, true
		return p
	})
}

func inAvro(cfg kafka.Config, url string, d *described) kafka.Config {
	cfg.Encoding, cfg.Schemas, cfg.Registry = "avro", d, registry.Options{URLs: []string{url}}
	return cfg
}

// described is an API server's description of its resources: objects have metadata, and the spec of a CRD's properties.
type described struct {
	mu         sync.Mutex
	properties string
	version    string // the last one in a request
	err        error
	asked      int
}

func (*described) Key(topic string) string { return schema.AvroKey(topic) }

func (d *described) Value(_ context.Context, topic string, resource change.Resource) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	d.version = resource.Version
	if d.err != nil {
		return "", d.err
	}
	crds, err := schema.ParseCRDs(fmt.Appendf(nil, `{"kind": "CustomResourceDefinition", "spec": {"group": "", "scope": "Namespaced",
		"names": {"plural": "pods", "kind": "Pod"}, "versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema":
		{"type": "object", "properties": {"spec": {"type": "object", "properties": {%s}}}}}}]}}`, d.properties))
	if err != nil {
		return "", err
	}
	_, object, err := crds.Find("pods")
	return schema.Avro(topic, object), err
}

func (d *described) say(properties string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.properties, d.err = properties, err
}

// fakeRegistry stores schemas in the order in which they come, and returns the configured answers.
type fakeRegistry struct {
	URL string

	mu       sync.Mutex
	texts    []string
	subjects map[string][]int
	status   int    // status of all answers, or 0 if it works
	refusal  int    // status for new schemas, or 0 if it accepts all
	foreign  string // suffix of the subjects that have schemas of another program
	requests int
}

func newFakeRegistry(t *testing.T) *fakeRegistry {
	r := &fakeRegistry{subjects: map[string][]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /schemas/ids/{id}", func(w http.ResponseWriter, q *http.Request) {
		var id int
		if _, _ = fmt.Sscan(q.PathValue("id"), &id); id < 1 || id > len(r.texts) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"schema": r.texts[id-1]})
	})
	mux.HandleFunc("GET /subjects/{subject}/versions/latest", func(w http.ResponseWriter, q *http.Request) {
		versions := r.subjects[q.PathValue("subject")]
		if len(versions) == 0 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		id := versions[len(versions)-1]
		_ = json.NewEncoder(w).Encode(map[string]any{"id": id, "version": len(versions), "schema": r.texts[id-1]})
	})
	mux.HandleFunc("POST /subjects/{subject}/versions", func(w http.ResponseWriter, q *http.Request) {
		var body struct{ Schema string }
		_ = json.NewDecoder(q.Body).Decode(&body)
		if r.refusal != 0 {
			w.WriteHeader(r.refusal)
			return
		}
		for _, id := range r.subjects[q.PathValue("subject")] {
			if r.texts[id-1] == body.Schema {
				_ = json.NewEncoder(w).Encode(map[string]any{"id": id})
				return
			}
		}
		r.texts = append(r.texts, body.Schema)
		r.subjects[q.PathValue("subject")] = append(r.subjects[q.PathValue("subject")], len(r.texts))
		_ = json.NewEncoder(w).Encode(map[string]any{"id": len(r.texts)})
	})
	mux.HandleFunc("POST /compatibility/subjects/{subject}/versions/latest", func(w http.ResponseWriter, q *http.Request) {
		foreign := r.foreign != "" && strings.HasSuffix(q.PathValue("subject"), r.foreign)
		_ = json.NewEncoder(w).Encode(map[string]any{"is_compatible": !foreign})
	})
	mux.HandleFunc("GET /subjects", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[]")) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.requests++; r.status != 0 {
			w.WriteHeader(r.status)
			return
		}
		mux.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

func (r *fakeRegistry) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *fakeRegistry) refuse(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusal = status
}

func (r *fakeRegistry) asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}
