// Package minute is a model of what a large cluster writes in a minute: 30 Pods per node. With 5,000 nodes that is a million Pods
// a day, as in bench/capacity.
package minute

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"kubecdc/change"
)

// Part is a resource of the cluster: the number of its objects, and how they change.
type Part struct {
	change.Resource
	Alive  int     // objects, at the beginning
	Turns  float64 // per second
	Begins int     // a turn creates an object by this many changes, and another one, the oldest, ends by the others
	Ends   int
	Steps  int  // or it changes an object this often
	Leased bool // objects expire together
}

// Expiring is how many objects share a lease.
const Expiring = 500

// Cluster returns the resources of a cluster with this many nodes that write.
func Cluster(nodes float64) []Part {
	pods := 30 * nodes
	rolled, worked := pods/86400, (200*nodes-pods)/86400
	newResource := func(group, plural string) change.Resource {
		return change.Resource{Group: group, Version: "v1", Plural: plural, Kind: plural, Namespaced: plural != "nodes"}
	}
	return []Part{
		{Resource: newResource("coordination.k8s.io", "leases"), Alive: int(nodes), Turns: nodes / 10, Steps: 1},
		{Resource: newResource("", "nodes"), Alive: int(nodes), Turns: nodes / 300, Steps: 1},
		{Resource: newResource("", "pods"), Alive: int(pods), Turns: rolled + worked, Begins: 5, Ends: 4},
		{Resource: newResource("", "events"), Alive: int(6 * (rolled + worked) * 3600), Turns: 6 * (rolled + worked), Begins: 1, Ends: 1, Leased: true},
		{Resource: newResource("apps", "deployments"), Alive: int(pods / 10), Turns: rolled, Steps: 2},
		{Resource: newResource("apps", "replicasets"), Alive: int(pods / 10 * 11), Turns: rolled, Steps: 4},
		{Resource: newResource("discovery.k8s.io", "endpointslices"), Alive: int(pods / 10), Turns: rolled, Steps: 4},
		{Resource: newResource("batch", "jobs"), Alive: int(worked * 3600), Turns: worked, Begins: 4, Ends: 1},
	}
}

// Key returns the key of one of the objects at the beginning.
func (p *Part) Key(i int) string { return p.key("n", i) }

func (p *Part) key(prefix string, i int) string {
	namespace := ""
	if p.Namespaced {
		namespace = fmt.Sprintf("ns-%03d", i%200)
	}
	return change.ObjectKey(namespace, fmt.Sprintf("%s-%07d", prefix, i))
}

// Write is a write of one object. Without a key it is the end of the oldest lease, and of the objects that share it.
type Write struct {
	Second float64 // since the beginning
	Part   int
	Key    string
	Delete bool
}

// Writes returns what the parts write in a number of seconds, in order.
func Writes(random *rand.Rand, parts []Part, seconds float64) (all []Write) {
	for n := range parts {
		all = append(all, parts[n].writes(random, n, seconds)...)
	}
	slices.SortStableFunc(all, func(x, y Write) int { return cmp.Compare(x.Second, y.Second) })
	gone := map[Write]bool{}
	return slices.DeleteFunc(all, func(w Write) bool {
		object := Write{Part: w.Part, Key: w.Key}
		was := gone[object]
		gone[object] = was || w.Delete
		return w.Second > seconds || was
	})
}

func (p *Part) writes(random *rand.Rand, n int, seconds float64) (all []Write) {
	for turn := range int(p.Turns * seconds) {
		second, old := random.Float64()*seconds, p.Key((turn*7919)%max(p.Alive, 1))
		if p.Plural == "leases" { // each in turn
			second, old = float64(turn)/p.Turns, p.Key(turn%p.Alive)
		}
		for i := range p.Steps {
			all = append(all, Write{Second: second + float64(i), Part: n, Key: old})
		}
		for i := range p.Begins {
			all = append(all, Write{Second: second + float64(i), Part: n, Key: p.key("z", turn)})
		}
		if p.Leased {
			if turn%Expiring == 0 {
				all = append(all, Write{Second: second, Part: n})
			}
			continue
		}
		for i := range p.Ends {
			all = append(all, Write{Second: second + float64(i)*2, Part: n, Key: old, Delete: i == p.Ends-1})
		}
	}
	return all
}
