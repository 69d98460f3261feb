package reflector_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// converter is a conversion webhook that takes its time for each object.
type converter struct {
	*httptest.Server
	takes     time.Duration
	converted atomic.Int64
}

func newConverter(t *testing.T, takes time.Duration) *converter {
	c := &converter{takes: takes}
	c.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Request    struct {
				UID               string           `json:"uid"`
				DesiredAPIVersion string           `json:"desiredAPIVersion"`
				Objects           []map[string]any `json:"objects"`
			} `json:"request"`
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for _, o := range review.Request.Objects {
			o["apiVersion"] = review.Request.DesiredAPIVersion
			c.converted.Add(1)
			time.Sleep(c.takes)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": review.APIVersion, "kind": review.Kind, "response": map[string]any{
			"uid": review.Request.UID, "result": map[string]any{"status": "Success"}, "convertedObjects": review.Request.Objects}})
	}))
	t.Cleanup(c.Close)
	return c
}

// makeConvert lets the webhook convert the CRD's objects.
func (c *converter) makeConvert(crd *unstructured.Unstructured) {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw})
	crd.Object["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"url": c.URL, "caBundle": ca}}}
}

// A CRD stores its objects in another version than the one that is read, and its webhook takes 30 ms to convert an object. A list
// of all objects of the past takes longer than the API server allows. It is read in parts, none of which is asked for in vain.
// The API server's cache converts all objects, and so does one list of the past.
func TestSlowAPastThatMustBeConverted(t *testing.T) {
	servers.Slow(t)
	const objects = 2000
	k := servers.Lend(t)
	webhook := newConverter(t, 30*time.Millisecond)
	group := "converted.example.com"
	client := dynamic.NewForConfigOrDie(k.Config)
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	definition := crd(group, []string{"v1", "v1beta1"}, "v1beta1")
	webhook.makeConvert(definition)
	must[*unstructured.Unstructured](t)(waitAndCreate(t, crds, definition))
	widgets := client.Resource(schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: "widgets"}).Namespace("default")
	widget := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1beta1", "kind": "Widget", "metadata": map[string]any{"name": name}}}
	}
	must[*unstructured.Unstructured](t)(waitAndCreate(t, widgets, widget("first")))
	var all errgroup.Group
	all.SetLimit(8)
	for i := range objects {
		all.Go(func() error {
			_, err := widgets.Create(context.Background(), widget(fmt.Sprintf("w%04d", i)), metav1.CreateOptions{})
			return err
		})
	}
	mustDo(t, all.Wait())
	g, l := newGateway(t, k.Config), newLedger()
	resource := change.Resource{Group: group, Version: "v1", Plural: "widgets", Kind: "Widget", Namespaced: true}
	options := testOptions()
	options.PageSize = 500
	startStream(t, g.config(), change.NewStream(resource, "", "", ""), options, l, &quietObserver{})
	l.awaitStarted(t)
	g.hold()
	must[*unstructured.Unstructured](t)(widgets.Create(t.Context(), widget("transient"), metav1.CreateOptions{}))
	mustDo(t, widgets.Delete(t.Context(), "transient", metav1.DeleteOptions{}))
	mustDo(t, widgets.Delete(t.Context(), "w0100", metav1.DeleteOptions{}))
	last := must[*unstructured.Unstructured](t)(widgets.Create(t.Context(), widget("last"), metav1.CreateOptions{})).GetResourceVersion()
	mustDo(t, k.RestartAPIServer(t.Context()))
	began := time.Now()
	webhook.converted.Store(0)
	g.release(true)
	l.awaitPosition(t, last)
	gap := onlyGap(t, l)
	t.Logf("%s after the restart; %d conversions; %d requests in %d ms; %s", time.Since(began).Round(time.Second), webhook.converted.Load(),
		gap.Requests, gap.ElapsedMs, says(l))
	if n := webhook.converted.Load(); n > 2*objects+objects/2 {
		t.Errorf("%d conversions of %d objects", n, objects)
	}
	if !gap.Complete || gap.Recovered != 4 {
		t.Errorf("gap record %+v", gap)
	}
}
