package restore

import "strings"

// WithoutServerSet removes what the API server sets in every object.
func WithoutServerSet(object map[string]any) {
	delete(object, "status")
	metadata, _ := object["metadata"].(map[string]any)
	for _, name := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"} {
		delete(metadata, name)
	}
}

// set is what servers and controllers set in objects of a resource. A name with dots has them as zero bytes.
var set = map[string][]string{
	"services": {"spec.clusterIP", "spec.clusterIPs", "spec.healthCheckNodePort"},
	"persistentvolumeclaims": {"spec.volumeName", "metadata.annotations.pv\x00kubernetes\x00io/bind-completed",
		"metadata.annotations.pv\x00kubernetes\x00io/bound-by-controller"},
	"persistentvolumes": {"spec.claimRef"},
	"pods":              {"spec.nodeName"},
	"namespaces":        {"spec.finalizers"},
	"deployments.apps":  {"metadata.annotations.deployment\x00kubernetes\x00io/revision"},
	"jobs.batch":        {"spec.selector", "spec.template.metadata.labels"},
	"serviceaccounts":   {"secrets"},
	"certificatesigningrequests.certificates.k8s.io": {"spec.username", "spec.uid", "spec.groups", "spec.extra"},
}

// parent returns the object that has the last member of a path, and its name.
func parent(object map[string]any, path string) (map[string]any, string) {
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		object, _ = object[strings.ReplaceAll(name, "\x00", ".")].(map[string]any)
	}
	return object, strings.ReplaceAll(names[len(names)-1], "\x00", ".")
}

func member(object map[string]any, path string) (value any, exists bool) {
	in, name := parent(object, path)
	value, exists = in[name]
	return value, exists
}

func remove(object map[string]any, path string) {
	in, name := parent(object, path)
	delete(in, name)
}

// assign sets a member. It makes parents that are missing.
func assign(object map[string]any, path string, value any) {
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		name = strings.ReplaceAll(name, "\x00", ".")
		if _, exists := object[name].(map[string]any); !exists {
			object[name] = map[string]any{}
		}
		object = object[name].(map[string]any)
	}
	object[strings.ReplaceAll(names[len(names)-1], "\x00", ".")] = value
}
