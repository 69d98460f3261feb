package serve

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/internal/cells"
)

const ingressClasses = "ingressclasses.networking.k8s.io"

// defaultAnnotations mark the default class, which applies to objects that name none.
var defaultAnnotations = map[string][]string{
	ingressClasses: {"ingressclass.kubernetes.io/is-default-class"},
	"storageclasses.storage.k8s.io": {"storageclass.kubernetes.io/is-default-class",
		"storageclass.beta.kubernetes.io/is-default-class"},
}

// markDefault marks the default among classes. The default StorageClass is the newest one with an annotation, which only a list
// shows.
func markDefault(resource *served, isList bool, objects []*cells.Row, rows []metav1.TableRow) {
	annotations := defaultAnnotations[resource.ID()]
	newest := -1
	for i, r := range objects {
		has := r.Labels("metadata.annotations")
		if !slices.ContainsFunc(annotations, func(name string) bool { return has[name] == "true" }) {
			continue
		}
		if resource.ID() == ingressClasses {
			rows[i].Cells[0] = rows[i].Cells[0].(string) + " (default)"
		} else if newest < 0 || r.Text("metadata.creationTimestamp") > objects[newest].Text("metadata.creationTimestamp") {
			newest = i
		}
	}
	if newest >= 0 && isList {
		rows[newest].Cells[0] = rows[newest].Cells[0].(string) + " (default)"
	}
}
