package main

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is one of the resources that the story is about.
type kind struct {
	gvr  schema.GroupVersionResource
	etcd string // the prefix of its keys in etcd
}

var (
	configmaps  = kind{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "/registry/configmaps/"}
	pods        = kind{schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "/registry/pods/"}
	deployments = kind{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "/registry/deployments/"}
	orders      = kind{schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "orders"}, "/registry/example.com/orders/"}

	builtIn = []kind{configmaps, pods, deployments}
	kinds   = append(builtIn, orders)
)

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// String is the kind's name as in KUBECDC_RESOURCES, in streams and in topics.
func (k kind) String() string { return strings.TrimSuffix(k.gvr.Resource+"."+k.gvr.Group, ".") }

func (k kind) topic() string { return topicPrefix + "." + k.String() }
