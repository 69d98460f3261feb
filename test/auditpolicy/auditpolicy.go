// Package auditpolicy puts the policy that tells who makes a change (docs/who.md) into a test's cluster.
package auditpolicy

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kubecdc/rbac"
)

// resources are the resources of the policy's objects, in their order.
var resources = []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"}

// Create makes the policy and its binding. It takes a moment until the API server goes by them.
func Create(ctx context.Context, config *rest.Config) error {
	return each(config, func(api dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		_, err := api.Create(ctx, o, metav1.CreateOptions{})
		return err
	})
}

// Delete takes them away, if they are there.
func Delete(ctx context.Context, config *rest.Config) error {
	return each(config, func(api dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		err := api.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

func each(config *rest.Config, do func(dynamic.ResourceInterface, *unstructured.Unstructured) error) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	for i, o := range (&rbac.Account{Name: "who", Namespace: "kubecdc"}).AuditPolicy() {
		text, err := json.Marshal(o)
		if err != nil {
			return err
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(text); err != nil {
			return err
		}
		gvr := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resources[i]}
		if err := do(client.Resource(gvr), u); err != nil {
			return err
		}
	}
	return nil
}
