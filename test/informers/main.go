// Command informers starts an informer of each resource that an API server's discovery has, with client-go 0.29, the client of Kubernetes
// 1.29. It prints what their stores have once all are in sync.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 1000, 1000
	lists, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerPreferredResources()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	factory := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(config), 0)
	resources := []schema.GroupVersionResource{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch") {
				resources = append(resources, gv.WithResource(r.Name))
				factory.ForResource(gv.WithResource(r.Name)).Informer()
			}
		}
	}
	factory.Start(ctx.Done())
	for resource, inSync := range factory.WaitForCacheSync(ctx.Done()) {
		if !inSync {
			return fmt.Errorf("the informer of %s is not in sync", resource)
		}
	}
	slices.SortFunc(resources, func(a, b schema.GroupVersionResource) int { return strings.Compare(a.String(), b.String()) })
	for _, resource := range resources {
		names := []string{}
		for _, o := range factory.ForResource(resource).Informer().GetStore().List() {
			names = append(names, o.(metav1.Object).GetNamespace()+"/"+o.(metav1.Object).GetName())
		}
		slices.Sort(names)
		fmt.Println(resource.GroupResource(), names)
	}
	return nil
}
