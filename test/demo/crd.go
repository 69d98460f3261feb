package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/test/servers"
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// orderDefinition is the CRD of orders.
func orderDefinition() object {
	text := object{"type": "string"}
	spec := object{"type": "object", "properties": object{"item": text, "state": text}}
	return object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": orders.ID()},
		"spec": object{
			"group": orders.GVR.Group, "scope": "Namespaced",
			"names": object{"plural": orders.GVR.Resource, "singular": "order", "kind": "Order"},
			"versions": []any{object{
				"name": orders.GVR.Version, "served": true, "storage": true,
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
	return servers.Until(ctx, "the API server to serve "+orders.ID(), func() (bool, error) {
		_, err := c.objects(ctx, orders)
		return err == nil, nil
	})
}

// awaitWritable waits until the API server takes objects of the new kind. It delays that by two seconds, so that other API servers learn
// of it too (k8s.io/apiextensions-apiserver, customresource_handler.go).
func (c *cluster) awaitWritable(ctx context.Context) error {
	body := orderBody("nothing")
	body["metadata"] = object{"name": "nothing"}
	trial := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	_, err := c.client.Resource(orders.GVR).Namespace(namespace).Create(ctx, &unstructured.Unstructured{Object: body}, trial)
	if err != nil {
		return fmt.Errorf("try whether %s can be written: %w", orders, err)
	}
	return nil
}
