package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"golang.org/x/sync/errgroup"
)

// namespace is where the tour takes place.
const namespace = "shop"

// cluster writes to the API server, as any of its users would.
type cluster struct {
	client dynamic.Interface
	writes atomic.Int64
}

func newCluster(config *rest.Config) (*cluster, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	return &cluster{client: client}, nil
}

type object = map[string]any

func (c *cluster) create(ctx context.Context, k kind, name string, body object) (*unstructured.Unstructured, error) {
	body["metadata"] = object{"name": name}
	o, err := c.client.Resource(k.GVR).Namespace(namespace).Create(ctx, &unstructured.Unstructured{Object: body}, metav1.CreateOptions{})
	return o, c.wrote("create", k, name, err)
}

// patch changes fields (a JSON merge patch). A subresource may be named.
func (c *cluster) patch(ctx context.Context, k kind, name string, fields object, subresource ...string) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	o, err := c.client.Resource(k.GVR).Namespace(namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, subresource...)
	return o, c.wrote("patch", k, name, err)
}

func (c *cluster) delete(ctx context.Context, k kind, name string) error {
	err := c.client.Resource(k.GVR).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	return c.wrote("delete", k, name, err)
}

func (c *cluster) wrote(verb string, k kind, name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s %s %s/%s: %w", verb, k, namespace, name, err)
	}
	c.writes.Add(1)
	return nil
}

// createShared creates what belongs to no namespace.
func (c *cluster) createShared(ctx context.Context, gvr schema.GroupVersionResource, body object) error {
	o := &unstructured.Unstructured{Object: body}
	if _, err := c.client.Resource(gvr).Create(ctx, o, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create %s %s: %w", gvr.Resource, o.GetName(), err)
	}
	return nil
}

// objects are all that the API server holds of a kind now.
func (c *cluster) objects(ctx context.Context, k kind) ([]unstructured.Unstructured, error) {
	list, err := c.client.Resource(k.GVR).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", k, err)
	}
	return list.Items, nil
}

// write changes one object and gives it as it is then: nil after a deletion.
type write func(context.Context) (*unstructured.Unstructured, error)

func (c *cluster) creation(k kind, name string, body object) write {
	return func(ctx context.Context) (*unstructured.Unstructured, error) { return c.create(ctx, k, name, body) }
}

func (c *cluster) update(k kind, name string, fields object, subresource ...string) write {
	return func(ctx context.Context) (*unstructured.Unstructured, error) {
		return c.patch(ctx, k, name, fields, subresource...)
	}
}

func (c *cluster) deletion(k kind, name string) write {
	return func(ctx context.Context) (*unstructured.Unstructured, error) { return nil, c.delete(ctx, k, name) }
}

// writers is how many of run's lists are worked on at once.
const writers = 8

// run makes the writes of each list in their order, and several lists at once, until a write fails.
func (c *cluster) run(ctx context.Context, lists [][]write) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, list := range lists {
		group.Go(func() error {
			for _, w := range list {
				if err := ctx.Err(); err != nil {
					return err
				}
				if _, err := w(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
