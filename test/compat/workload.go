package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

type object = map[string]any

const namespace = "shop"

var (
	pods       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	configmaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// How many objects there are; each part of the work changes some of them.
const (
	podCount = 240
	mapCount = 120
)

func podName(i int) string { return fmt.Sprintf("pod-%d", i) }
func mapName(i int) string { return fmt.Sprintf("settings-%d", i) }

// seed creates what exists before the exporters start, half of all.
func (s *stack) seed(ctx context.Context) error {
	space := &unstructured.Unstructured{Object: object{
		"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": namespace}}}
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	if _, err := s.cluster.Resource(namespaces).Create(ctx, space, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", namespace, err)
	}
	return s.each(ctx, podCount/2, mapCount/2, s.createPod(0), s.createMap)
}

// work creates, updates, deletes and re-creates objects, others in each part. What a part leaves alone keeps the record that it
// has.
func (s *stack) work(ctx context.Context, part int) error {
	say("work, part %d", part)
	return s.each(ctx, podCount, mapCount,
		func(ctx context.Context, i int) error { return s.workOnPod(ctx, part, i) },
		func(ctx context.Context, i int) error { return s.workOnMap(ctx, part, i) })
}

// each calls both functions for their objects, several at once.
func (s *stack) each(ctx context.Context, pods, maps int, onPod, onMap func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range pods {
		group.Go(func() error { return onPod(ctx, i) })
	}
	for i := range maps {
		group.Go(func() error { return onMap(ctx, i) })
	}
	return group.Wait()
}

func (s *stack) workOnPod(ctx context.Context, part, i int) error {
	name := podName(i)
	if part == 1 && i >= podCount/2 {
		if err := s.createPod(0)(ctx, i); err != nil {
			return err
		}
	}
	switch (i + part) % 6 {
	case 0:
		return nil
	case 1, 2:
		ctx = as(ctx, partUser(part))
		for turn := range 3 {
			label := object{"metadata": object{"labels": object{"turn": fmt.Sprintf("%d.%d", part, turn)}}}
			if err := s.patch(ctx, pods, name, label); err != nil {
				return err
			}
		}
		return s.patch(ctx, pods, name, object{"status": object{"phase": []string{"Running", "Succeeded"}[part%2]}}, "status")
	case 3: // the name goes on, the object does not
		for life := range 2 {
			if err := s.replacePod(ctx, i, 10*part+life); err != nil {
				return err
			}
		}
		return nil
	case 4:
		if i%4 == 0 {
			return ignoreMissing(s.delete(ctx, pods, name))
		}
		return s.replacePod(ctx, i, 10*part)
	}
	return nil
}

func (s *stack) replacePod(ctx context.Context, i, life int) error {
	if err := ignoreMissing(s.delete(ctx, pods, podName(i))); err != nil {
		return err
	}
	return s.createPod(life)(ctx, i)
}

func (s *stack) workOnMap(ctx context.Context, part, i int) error {
	if part == 1 && i >= mapCount/2 {
		return s.createMap(ctx, i)
	}
	switch (i + part) % 4 {
	case 0:
		if err := ignoreMissing(s.delete(ctx, configmaps, mapName(i))); err != nil || i%8 == 0 {
			return err
		}
		return s.createMap(ctx, i)
	case 1:
		return s.patch(ctx, configmaps, mapName(i), object{"data": object{"turn": fmt.Sprint(part)}})
	}
	return nil
}

func (s *stack) createPod(life int) func(context.Context, int) error {
	return func(ctx context.Context, i int) error {
		return s.create(as(ctx, lifeUser(life)), pods, object{"apiVersion": "v1", "kind": "Pod",
			"metadata": object{"name": podName(i), "labels": object{"app": fmt.Sprintf("app-%d", i%7), "life": fmt.Sprint(life)}},
			"spec": object{"nodeName": fmt.Sprintf("node-%d", (i*i+life)%7), "containers": []any{
				object{"name": "main", "image": "registry.example.com/app:1"}}},
		})
	}
}

// createMap makes values that a careless parser gets wrong: every kind of quote, other scripts, a large one.
func (s *stack) createMap(ctx context.Context, i int) error {
	return s.create(ctx, configmaps, object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": mapName(i)},
		"data": object{"odd": "\"'`\\ \t\n\u2028 <&> größe 数 🐙", "null": "null", "large": strings.Repeat("x", i*100)}})
}

func (s *stack) create(ctx context.Context, gvr schema.GroupVersionResource, body object) error {
	o := &unstructured.Unstructured{Object: body}
	_, err := s.cluster.Resource(gvr).Namespace(namespace).Create(ctx, o, metav1.CreateOptions{})
	return err
}

// patch is a JSON merge patch. It does nothing to an object that was deleted in an earlier part.
func (s *stack) patch(ctx context.Context, gvr schema.GroupVersionResource, name string, fields object, sub ...string) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	in := s.cluster.Resource(gvr).Namespace(namespace)
	_, err = in.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, sub...)
	return ignoreMissing(err)
}

func (s *stack) delete(ctx context.Context, gvr schema.GroupVersionResource, name string) error {
	now := int64(0) // no kubelet ends a pod
	return s.cluster.Resource(gvr).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
