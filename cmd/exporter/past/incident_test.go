package past

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/change/provenance"
	"kubecdc/incident"
	"kubecdc/internal/screen"
	"kubecdc/query"
	"kubecdc/query/who"
	"kubecdc/sinks"
)

// script is an incident, as the log has it.
type script struct {
	t       *testing.T
	b       incident.Builder
	events  query.EventMaker
	now     time.Time
	version uint64
	states  map[string]map[string]any // by type and name
}

// noResources is a log without owners.
type noResources struct{ sinks.Reader }

func (noResources) Resources(context.Context) ([]string, error) { return nil, nil }

// does logs a change: "alice ~ deployments.apps cart" sets members at paths, which are pairs of a path and a JSON value.
func (s *script) does(user, op, resource, name string, pairs ...string) {
	s.t.Helper()
	s.now, s.version = s.now.Add(700*time.Millisecond), s.version+1
	key := resource + "/" + name
	before, _ := json.Marshal(s.states[key])
	if s.states[key] == nil {
		before = nil
		s.states[key] = map[string]any{"metadata": map[string]any{"name": name, "namespace": "shop", "uid": key}}
	}
	for i := 0; i < len(pairs); i += 2 {
		var value any
		if err := json.Unmarshal([]byte(pairs[i+1]), &value); err != nil {
			s.t.Fatal(err)
		}
		inside, path := s.states[key], strings.Split(pairs[i], ".")
		for _, member := range path[:len(path)-1] {
			if inside[member] == nil {
				inside[member] = map[string]any{}
			}
			inside = inside[member].(map[string]any)
		}
		inside[path[len(path)-1]] = value
	}
	after, _ := json.Marshal(s.states[key])
	l := &sinks.Logged{Logged: s.now, Change: change.Change{Stream: change.ParseStream(change.StreamID(resource)), Op: change.Op(op[0]), Namespace: "shop",
		Name: name, UID: key, ResourceVersion: change.VersionOf(s.version), Time: s.now, Before: before, After: after}}
	if l.Op == change.Delete {
		l.After = nil
		delete(s.states, key)
	}
	new(provenance.Reader).Read(&l.Change)
	e, err := s.events.Event(l)
	if user != "" {
		e.By = &who.Who{Grade: who.Exact, User: user}
	}
	if err == nil {
		err = s.b.Add(l, e)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func controlledBy(kind, resource, name string) string {
	return fmt.Sprintf(`[{"apiVersion":"apps/v1","kind":%q,"name":%q,"uid":%q,"controller":true}]`, kind, name, resource+"/"+name)
}

func image(container, version string) string {
	return fmt.Sprintf(`[{"name":%q,"image":"registry.example.com/shop/%s:%s"}]`, container, container, version)
}

// play has five users, a bad rollout with a crash loop, an autoscaler, a changed setting, and deletions.
func (s *script) play() {
	const rs, pods, deploy = "replicasets.apps", "pods", "deployments.apps"
	const system, kubelet = "system:serviceaccount:kube-system:", "system:node:n1"
	running := func(ready, phase string, restarts int, reason string) string {
		state := `{"running":{}}`
		if reason != "" {
			state = fmt.Sprintf(`{"waiting":{"reason":%q}}`, reason)
		}
		return fmt.Sprintf(`{"phase":%q,"conditions":[{"type":"Ready","status":%q}],"containerStatuses":[{"name":"cart","ready":%v,"restartCount":%d,"state":%s}]}`,
			phase, map[bool]string{true: "True", false: "False"}[ready == "true"], ready == "true", restarts, state)
	}
	for _, name := range []string{"cart", "web", "old"} {
		s.does("", "r", deploy, name, "spec.replicas", "3", "spec.template.spec.containers", image(name, "1.0.0"), "status", `{"replicas":3,"readyReplicas":3}`)
		s.does("", "r", rs, name+"-1", "metadata.ownerReferences", controlledBy("Deployment", deploy, name), "spec.replicas", "3")
		for _, n := range []string{"-a", "-b", "-c"} {
			s.does("", "r", pods, name+"-1"+n, "metadata.ownerReferences", controlledBy("ReplicaSet", rs, name+"-1"), "spec.containers", image("cart", "1"),
				"status", running("true", "Running", 0, ""))
		}
	}
	s.does("", "r", "configmaps", "cart-config", "data.config", `"host: db\nport: 5432\n"`)
	s.does("", "r", "secrets", "token")
	s.does("", "r", pods, "batch", "spec.containers", image("cart", "1"), "status", running("true", "Running", 2, ""))
	s.does("alice", "u", deploy, "cart", "spec.template.spec.containers", image("cart", "2.0.0-rc1"))
	s.does(system+"deployment-controller", "u", deploy, "cart", "metadata.annotations", `{"deployment.kubernetes.io/revision":"2"}`)
	s.does(system+"deployment-controller", "c", rs, "cart-2", "metadata.ownerReferences", controlledBy("Deployment", deploy, "cart"), "spec.replicas", "1")
	for _, n := range []string{"-a", "-b"} {
		s.does(system+"replicaset-controller", "c", pods, "cart-2"+n, "metadata.ownerReferences", controlledBy("ReplicaSet", rs, "cart-2"),
			"spec.containers", image("cart", "2"), "status", running("false", "Pending", 0, "ContainerCreating"))
		s.does("system:kube-scheduler", "u", pods, "cart-2"+n, "spec.nodeName", `"n1"`)
	}
	s.does(system+"deployment-controller", "u", rs, "cart-1", "spec.replicas", "2")
	s.does(system+"replicaset-controller", "d", pods, "cart-1-c")
	s.does(system+"deployment-controller", "u", deploy, "cart", "status", `{"replicas":4,"readyReplicas":2}`)
	for i := range 3 {
		for _, n := range []string{"-a", "-b"} {
			s.does(kubelet, "u", pods, "cart-2"+n, "status", running("true", "Running", i, ""))
			s.does(kubelet, "u", pods, "cart-2"+n, "status", running("false", "Running", i+1, "CrashLoopBackOff"))
		}
		s.does(kubelet, "u", pods, "batch", "status", running("false", "Running", i+3, "CrashLoopBackOff"))
	}
	for i := range 30 { // what a cluster does by itself
		name := fmt.Sprint("lamp-", i)
		s.does("", "r", "services", name)
		s.does(system+"endpoints-controller", "c", "endpoints", name)
		s.does(kubelet, "u", pods, []string{"web-1-a", "web-1-b", "old-1-c"}[i%3], "status.observedGeneration", fmt.Sprint(i))
		s.does(system+"deployment-controller", "u", deploy, "web", "status.observedGeneration", fmt.Sprint(i))
		s.does(system+"service-controller", "u", "services", name, "status", `{"loadBalancer":{}}`)
	}
	s.does("bob", "u", "configmaps", "cart-config", "data.config", `"host: db2\nport: 5432\n"`)
	s.does(system+"horizontal-pod-autoscaler", "u", deploy, "web", "spec.replicas", "5")
	s.does("carol", "d", pods, "cart-1-b")
	s.does("dave", "u", deploy, "web", "spec.template.spec.containers", `[{"name":"web","image":"registry.example.com/shop/web:1.0.0","env":[{"name":"LOG_LEVEL_OF_THE_WHOLE_APPLICATION","value":"`+strings.Repeat("debug,", 20)+`"}]}]`)
	s.does("erin-with-a-name-that-is-long@example.com", "d", deploy, "old")
	s.does(system+"generic-garbage-collector", "d", rs, "old-1")
	for _, n := range []string{"-a", "-b", "-c"} {
		s.does(system+"generic-garbage-collector", "d", pods, "old-1"+n)
	}
	s.does("", "d", "secrets", "token")
}

// The view of an incident has what people did, and a line for what followed. In 80 columns nothing is cut.
func TestAnIncidentFitsOnAScreen(t *testing.T) {
	var got strings.Builder
	for _, columns := range []int{80, 140} {
		s := &script{t: t, events: query.EventMaker{Remember: true, NoPatch: true}, now: time.Date(2026, 5, 1, 14, 2, 0, 0, time.Local), states: map[string]map[string]any{}}
		s.play()
		v, err := s.b.End(t.Context(), noResources{})
		must(t, err)
		p := printing(t, "diff", "never")
		p.flags.folded = true
		fmt.Fprintf(&got, "%d columns\n", columns)
		lines := 0
		for _, e := range v.Entries {
			text := string(p.happening(e, columns, s.now))
			for line := range strings.Lines(text) {
				if lines++; screen.Width(strings.TrimSuffix(line, "\n")) > columns {
					t.Errorf("wider than %d columns: %s", columns, line)
				}
			}
			got.WriteString(text)
		}
		fmt.Fprintln(&got, unnamed(v.Unnamed))
		if lines > 40 {
			t.Errorf("%d lines in %d columns", lines, columns)
		}
	}
	golden := filepath.Join("testdata", "incident.golden")
	if *update {
		must(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	if want, err := os.ReadFile(golden); err != nil || got.String() != string(want) {
		t.Errorf("differs from %s (%v); to take it over: go test ./cmd/exporter/past -args -update\n%s", golden, err, got.String())
	}
}
