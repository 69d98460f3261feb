package main

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/test/oracle"
)

// kind is one of the resources that the tour shows.
type kind = oracle.Kind

var (
	configmaps  = kind{GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Prefix: "/registry/configmaps/"}
	pods        = kind{GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Prefix: "/registry/pods/"}
	deployments = kind{GVR: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Prefix: "/registry/deployments/"}
	orders      = kind{GVR: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "orders"}, Prefix: "/registry/example.com/orders/"}

	builtIn = []kind{configmaps, pods, deployments}
	kinds   = append(builtIn, orders)
)

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

func topicOf(k kind) string { return topicPrefix + "." + k.ID() }
