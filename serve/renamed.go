package serve

import (
	"encoding/json"
	"fmt"
	"slices"

	"kubecdc/query"
)

// renamed are the members of an Event of the core group that have another name in events.k8s.io.
var renamed = map[string]string{"involvedObject": "regarding", "message": "note", "source": "deprecatedSource",
	"firstTimestamp": "deprecatedFirstTimestamp",
	"lastTimestamp":  "deprecatedLastTimestamp", "count": "deprecatedCount", "reportingComponent": "reportingController"}

var eventIDs = []string{"events", "events.events.k8s.io"}

// withRenamed adds the resources that have the log's objects by other names: Events in their other group, and a CRD's versions
// with equal schemas.
func (c catalog) withRenamed() catalog {
	for _, r := range slices.Clone(c) {
		c = append(c, r.others...)
		if i := slices.Index(eventIDs, r.ID()); i >= 0 &&
			!slices.ContainsFunc(c, func(o *served) bool { return o.ID() == eventIDs[1-i] }) {
			other := *builtin()[eventIDs[1-i]]
			other.from = r
			c = append(c, &other)
		}
	}
	return c
}

// logged returns the id of the resource in the log.
func (r *served) logged() string {
	if r.from != nil {
		return r.from.ID()
	}
	return r.ID()
}

// rename gives an object of the log the names of this resource.
func (r *served) rename(o *query.Object) {
	members := map[string]json.RawMessage{}
	if r == nil || r.from == nil || json.Unmarshal(o.Body, &members) != nil {
		return
	}
	delete(members, "kind")
	delete(members, "apiVersion")
	if slices.Contains(eventIDs, r.ID()) {
		renameEvent(members, r.ID() == eventIDs[0])
	}
	rest, _ := json.Marshal(members) // can't fail: it was valid
	o.Body = fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,%s`, r.Kind, r.APIVersion(), rest[1:])
}

// renameEvent gives the members of an Event their names in the core group, or in the other one. Each group leaves out other empty
// members.
func renameEvent(members map[string]json.RawMessage, isCore bool) {
	reporter := "reportingController"
	for from, to := range renamed {
		if isCore {
			from, to, reporter = to, from, "reportingComponent"
		}
		if value, has := members[from]; has {
			delete(members, from)
			members[to] = value
		}
	}
	orZero := func(members map[string]json.RawMessage, name, zero string, isLeftOut bool) {
		if isLeftOut && string(members[name]) == zero {
			delete(members, name)
		} else if !isLeftOut && members[name] == nil {
			members[name] = json.RawMessage(zero)
		}
	}
	orZero(members, reporter, `""`, !isCore)
	orZero(members, "reportingInstance", `""`, !isCore)
	series := map[string]json.RawMessage{}
	if json.Unmarshal(members["series"], &series) == nil && len(series) > 0 {
		orZero(series, "count", "0", isCore)
		members["series"], _ = json.Marshal(series) // can't fail: it was valid
	}
}
