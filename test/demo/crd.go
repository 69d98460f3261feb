package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// orderDefinition is the CRD of orders.
func orderDefinition() object {
	text := object{"type": "string"}
	spec := object{"type": "object", "properties": object{"item": text, "state": text}}
	return object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": orders.String()},
		"spec": object{
			"group": orders.gvr.Group, "scope": "Namespaced",
			"names": object{"plural": orders.gvr.Resource, "singular": "order", "kind": "Order"},
			"versions": []any{object{
				"name": orders.gvr.Version, "served": true, "storage": true,
				"schema": object{"openAPIV3Schema": object{"type": "object", "properties": object{"spec": spec}}},
			}},
		},
	}
}

// installOrders installs the CRD and waits until the API server serves it, to readers.
func (c *cluster) installOrders(ctx context.Context) error {
	if err := c.createShared(ctx, crds, orderDefinition()); err != nil {
		return err
	}
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		o, err := c.client.Resource(crds).Get(ctx, orders.String(), metav1.GetOptions{})
		if err != nil || !established(o) {
			return false, nil
		}
		_, err = c.objects(ctx, orders)
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the API server serves %s: %w", orders, err)
	}
	return nil
}

// awaitWritable waits until the API server takes objects of the new kind, which it delays by two seconds so that others
// of its kind learn of it too (k8s.io/apiextensions-apiserver, customresource_handler.go).
func (c *cluster) awaitWritable(ctx context.Context) error {
	body := orderBody("nothing")
	body["metadata"] = object{"name": "nothing"}
	trial := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	_, err := c.client.Resource(orders.gvr).Namespace(namespace).Create(ctx, &unstructured.Unstructured{Object: body}, trial)
	if err != nil {
		return fmt.Errorf("try whether %s can be written: %w", orders, err)
	}
	return nil
}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(object); ok && c["type"] == "Established" && c["status"] == "True" {
			return true
		}
	}
	return false
}
