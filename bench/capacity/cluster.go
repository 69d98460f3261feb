package main

import "kubecdc/change"

// cluster says how large a cluster is and what happens in it.
type cluster struct {
	nodes, pods float64
	podsADay    float64 // created: each of pods is replaced by a rollout once a day, the others belong to jobs
	scale       float64 // factor for objects and rates
}

// resource is what a cluster has and writes of one resource. A turn is one thing that happens: a pod that is replaced, a lease that is
// renewed. Its changes are states of the recorded life.
type resource struct {
	change.Resource
	alive        int     // objects, at any time
	turns        float64 // a second
	begins, ends []int   // a turn creates an object, which passes through these states, and the oldest one ends by those
	loop         []int   // or it takes an object on by some states of a loop,
	steps        int     // by so many
}

func (r resource) changesATurn() int { return len(r.begins) + len(r.ends) + r.steps }
func (r resource) rate() float64     { return r.turns * float64(r.changesATurn()) }

// rest is the state of an object that nothing happens to.
func (r resource) rest() int {
	if len(r.begins) > 0 {
		return r.begins[len(r.begins)-1]
	}
	return r.loop[len(r.loop)-1]
}

// resources are the resources that are written. A kubelet renews its lease every 10 s and reports its node's status every 5 minutes. A
// pod takes 9 changes and 6 Events, which live for an hour. A Deployment has 10 pods, 10 old ReplicaSets and a Service. Each pod that a
// rollout replaces takes 2 changes of its Deployment, 4 of ReplicaSets and 4 of the EndpointSlice. A job is 5 changes, and lives for an
// hour.
func (c cluster) resources() []resource {
	const day, hour = 86400, 3600
	rolled, worked := c.pods/day, (c.podsADay-c.pods)/day
	newResource := func(group, plural, kind string, namespaced bool) change.Resource {
		return change.Resource{Group: group, Version: "v1", Plural: plural, Kind: kind, Namespaced: namespaced}
	}
	all := []struct {
		resource
		alive float64
	}{
		{resource{Resource: newResource("coordination.k8s.io", "leases", "Lease", true), turns: c.nodes / 10, loop: []int{1, 2}, steps: 1}, c.nodes},
		{resource{Resource: newResource("", "nodes", "Node", false), turns: c.nodes / 300, loop: []int{1, 2}, steps: 1}, c.nodes},
		{resource{Resource: newResource("", "pods", "Pod", true), turns: rolled + worked, begins: []int{0, 1, 2, 3, 4}, ends: []int{5, 6, 7, 8}}, c.pods},
		{resource{Resource: newResource("", "events", "Event", true), turns: 6 * (rolled + worked), begins: []int{0}, ends: []int{1}}, 6 * (rolled + worked) * hour},
		{resource{Resource: newResource("apps", "deployments", "Deployment", true), turns: rolled, loop: []int{1, 2, 3, 4, 5, 6}, steps: 2}, c.pods / 10},
		{resource{Resource: newResource("apps", "replicasets", "ReplicaSet", true), turns: rolled, loop: []int{1, 2, 3, 4, 5, 6}, steps: 4}, c.pods / 10 * 11},
		{resource{Resource: newResource("discovery.k8s.io", "endpointslices", "EndpointSlice", true), turns: rolled, loop: []int{1, 2, 3, 4}, steps: 4}, c.pods / 10},
		{resource{Resource: newResource("batch", "jobs", "Job", true), turns: worked, begins: []int{0, 1, 2, 3}, ends: []int{4}}, worked * hour},
	}
	var resources []resource
	for _, r := range all {
		r.resource.alive, r.turns = int(r.alive*c.scale), r.turns*c.scale
		resources = append(resources, r.resource)
	}
	return resources
}
