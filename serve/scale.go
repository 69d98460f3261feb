package serve

import (
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/change"
	"kubecdc/internal/cells"
	"kubecdc/query"
)

// scalePaths tell where objects have the parts of a Scale. A CRD defines its own.
type scalePaths struct{ SpecReplicasPath, StatusReplicasPath, LabelSelectorPath string }

// scaleObject is a Scale. Its package would add 3 MB to the program.
type scaleObject struct {
	metav1.TypeMeta   `json:""`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Replicas int32 `json:"replicas,omitempty"`
	} `json:"spec,omitempty"`
	Status struct {
		Replicas int32  `json:"replicas"`
		Selector string `json:"selector,omitempty"`
	} `json:"status,omitempty"`
}

// scales returns the kind of the subresource scale. The columns of custom resources' Scales have other words.
func (r *served) scales() *served {
	s := describe(change.APIResource{Resource: change.Resource{Group: "autoscaling", Version: "v1", Kind: "Scale",
		Plural: "scales"}})
	s.Columns = []metav1.TableColumnDefinition{s.Columns[0],
		{Name: "Desired", Type: "integer", Description: "replicas is the desired number of instances for the scaled object."},
		{Name: "Available", Type: "integer", Description: "replicas is the actual number of observed instances of the scaled " +
			"object."}, builtin()["configmaps"].Columns[2]}
	if r.scale == nil {
		s.Columns[0].Format = ""
	} else {
		s.Columns[1].Description, s.Columns[2].Description = "Number of desired replicas", "Number of actual replicas"
		s.Columns[3].Type = "date"
	}
	s.paths = []string{".spec.replicas", ".status.replicas", ".metadata.creationTimestamp"}
	return s
}

// toScale makes an object its Scale.
func (r *served) toScale(o *query.Object) error {
	paths, body, meta := r.scale, cells.Decoded(o.Body), partial(r, o).ObjectMeta
	member := func(path string) any { return cells.MemberAt(body, strings.TrimPrefix(path, ".")) }
	if paths == nil {
		paths = &scalePaths{"spec.replicas", "status.replicas", ""}
	}
	if _, isNumber := member(paths.SpecReplicasPath).(json.Number); !isNumber {
		return apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", paths.SpecReplicasPath))
	}
	selector := cells.TextOf(member(paths.LabelSelectorPath))
	if r.scale == nil {
		parsed := &metav1.LabelSelector{}
		text := cells.Compact(member("spec.selector"))
		if r.ID() == "replicationcontrollers" {
			text = `{"matchLabels":` + text + `}`
		}
		_ = json.Unmarshal([]byte(text), parsed)
		matches, err := metav1.LabelSelectorAsSelector(parsed)
		if err != nil {
			return err
		}
		selector = matches.String()
	}
	scale := scaleObject{TypeMeta: metav1.TypeMeta{Kind: "Scale", APIVersion: "autoscaling/v1"},
		ObjectMeta: metav1.ObjectMeta{Name: meta.Name, Namespace: meta.Namespace, UID: meta.UID,
			ResourceVersion: meta.ResourceVersion, CreationTimestamp: meta.CreationTimestamp}}
	scale.Spec.Replicas, scale.Status.Replicas =
		int32(cells.NumberOf(member(paths.SpecReplicasPath))), int32(cells.NumberOf(member(paths.StatusReplicasPath)))
	scale.Status.Selector = selector
	o.Body, _ = json.Marshal(&scale) // can't fail
	return nil
}
