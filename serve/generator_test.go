package serve

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"kubecdc/test/servers"
)

// generator makes objects of each kind by the API server's OpenAPI schemas, and writes them into etcd as JSON. So an object can have any
// state that its type has, whatever validation and controllers would say.
type generator struct {
	*rand.Rand
	t       *testing.T
	past    *past
	schemas map[string]map[string]schemaOf // by group/version, then by name
	kinds   []*served
	live    map[string][]string // keys in etcd, by resource
	uids    map[string]string   // by key
	wrong   int                 // number of wrong answers
}

type schemaOf struct {
	Ref        string `json:"$ref"`
	Type       string
	Format     string
	Enum       []any
	AllOf      []schemaOf
	Properties map[string]schemaOf
	Required   []string
	Items      *schemaOf
	Additional *schemaOf                               `json:"additionalProperties"`
	Kinds      []struct{ Group, Version, Kind string } `json:"x-kubernetes-group-version-kind"`
}

// reserved are resources whose objects change how the API server answers. The server creates some objects of each.
var reserved = []string{"apiservices.apiregistration.k8s.io", crds, "flowschemas.flowcontrol.apiserver.k8s.io",
	"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", "validatingwebhookconfigurations.admissionregistration.k8s.io",
	"mutatingwebhookconfigurations.admissionregistration.k8s.io", "leases.coordination.k8s.io", "events.events.k8s.io"}

// newGenerated returns a past with the generated CRDs, and a generator of objects whose seed is random (KUBECDC_TEST_SEED: another one).
func newGenerated(t *testing.T) (*past, *generator) {
	p := newPast(t, "KUBECDC_RESOURCES=*,secrets", "KUBECDC_SECRETS=plain")
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("KUBECDC_TEST_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("KUBECDC_TEST_SEED=%d", seed)
	g := p.generator(t, seed)
	for _, crd := range generatedCRDs {
		p.define(crd)
	}
	return p, g
}

func (p *past) generator(t *testing.T, seed uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), t: t, past: p, schemas: map[string]map[string]schemaOf{}, live: map[string][]string{}, uids: map[string]string{}}
	for _, id := range slices.Sorted(maps.Keys(builtin())) {
		if !slices.Contains(reserved, id) {
			g.kinds = append(g.kinds, builtin()[id])
		}
	}
	for _, crd := range generatedCRDs {
		g.kinds = append(g.kinds, customResource([]byte(crd), nil))
	}
	return g
}

// root returns the schema of a kind.
func (g *generator) root(resource *served) (gv string, root schemaOf) {
	gv = "api/v1"
	if resource.Group != "" {
		gv = "apis/" + resource.APIVersion()
	}
	if g.schemas[gv] == nil {
		var document struct {
			Components struct{ Schemas map[string]schemaOf }
		}
		servers.Await(g.t, "the schemas of "+gv, func() (bool, error) {
			return json.Unmarshal(g.past.real("/openapi/v3/"+gv, asObjects).body, &document) == nil, nil
		})
		g.schemas[gv] = document.Components.Schemas
	}
	for _, s := range g.schemas[gv] {
		if len(s.Kinds) == 1 && s.Kinds[0].Kind == resource.Kind && s.Kinds[0].Group == resource.Group {
			return gv, s
		}
	}
	g.t.Fatalf("no schema of %s in %s", resource.Kind, gv)
	return "", root
}

// object returns an object that is years old, so that its age does not depend on the second.
func (g *generator) object(resource *served, namespace, name string) map[string]any {
	gv, root := g.root(resource)
	o := map[string]any{}
	for _, member := range slices.Sorted(maps.Keys(root.Properties)) {
		if !slices.Contains([]string{"kind", "apiVersion", "metadata"}, member) {
			if v := g.value(gv, member, root.Properties[member], 1); v != nil {
				o[member] = v
			}
		}
	}
	metadata := map[string]any{"name": name, "creationTimestamp": g.time(),
		"labels": map[string]any{"gen": g.word(), "app": g.word()}}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	if g.IntN(5) == 0 {
		metadata["deletionTimestamp"], metadata["finalizers"] = g.time(), []any{"example.com/wait"}
	}
	if g.IntN(3) == 0 {
		metadata["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": g.word(), "uid": "u", "controller": g.IntN(2) == 0}}
	}
	if g.IntN(3) == 0 {
		metadata["annotations"] = map[string]any{"storageclass.kubernetes.io/is-default-class": "true", "ingressclass.kubernetes.io/is-default-class": g.word()}
	}
	g.complete(resource, o)
	o["kind"], o["apiVersion"], o["metadata"] = resource.Kind, resource.APIVersion(), metadata
	return o
}

// complete makes fields agree, as the API server does when it stores or reads an object.
func (g *generator) complete(resource *served, o map[string]any) {
	spec, _ := o["spec"].(map[string]any)
	delete(spec, "dataSource")
	delete(spec, "dataSourceRef")
	if spec == nil || resource.ID() != "services" {
		return
	}
	ip := g.pick("10.0.0.1", "10.0.0.2", "None")
	spec["clusterIP"], spec["clusterIPs"], spec["ipFamilies"], spec["ipFamilyPolicy"] = ip, []any{ip}, []any{"IPv4"}, "SingleStack"
	if spec["type"] == "ExternalName" {
		delete(spec, "internalTrafficPolicy")
	}
}

func (g *generator) value(gv, member string, s schemaOf, depth int) any {
	if len(s.AllOf) == 1 {
		s = s.AllOf[0]
	}
	_, name, _ := strings.Cut(s.Ref, "#/components/schemas/")
	switch parts := strings.Split(name, "."); parts[len(parts)-1] {
	case "Quantity":
		return g.pick("100m", "1", "2Gi", "1500m", "0", "1e3", "0.5")
	case "IntOrString":
		return g.pick(80, "50%", "http", 0)
	case "Time":
		return g.time()
	case "MicroTime":
		return strings.TrimSuffix(g.time(), "Z") + ".000000Z"
	case "Duration":
		return "15s"
	case "ObjectMeta":
		return map[string]any{"name": g.word(), "labels": map[string]any{"app": g.word()}}
	case "RawExtension":
		return map[string]any{"a": 1}
	case "JSON", "FieldsV1", "JSONSchemaProps":
		return nil
	case "MetricSpec", "MetricStatus":
		return g.metric(gv, g.schemas[gv][name], depth)
	case "":
	default:
		s = g.schemas[gv][name]
	}
	return g.plain(gv, member, s, depth)
}

// metric returns a metric with the source that its type names, on which the API server relies.
func (g *generator) metric(gv string, s schemaOf, depth int) any {
	kind := g.pick("Resource", "Pods", "Object", "External", "ContainerResource").(string)
	member := strings.ToLower(kind[:1]) + kind[1:]
	_, name, _ := strings.Cut(s.Properties[member].AllOf[0].Ref, "#/components/schemas/")
	source := g.members(gv, g.schemas[gv][name], -5).(map[string]any)
	for _, target := range []string{"target", "current"} {
		if source[target] == nil && g.schemas[gv][name].Properties[target].AllOf != nil {
			source[target] = map[string]any{}
		}
		if t, isObject := source[target].(map[string]any); isObject && g.IntN(2) == 0 {
			delete(t, "averageValue")
		}
	}
	return map[string]any{"type": kind, member: source}
}

// plain returns a value of a schema without references.
func (g *generator) plain(gv, member string, s schemaOf, depth int) any {
	if len(s.Enum) > 0 {
		return s.Enum[g.IntN(len(s.Enum))]
	}
	switch s.Type {
	case "string":
		return g.text(member, s.Format)
	case "integer":
		return g.pick(0, 0, 1, 1, 2, 3, 80, 3600, 10000)
	case "number":
		return g.pick(0, 1.5, 3)
	case "boolean":
		return g.IntN(2) == 0
	case "array":
		list := []any{}
		for range 1 + g.IntN(4) { // an empty list is not stored
			if v := g.value(gv, strings.TrimSuffix(member, "s"), *s.Items, depth+1); v != nil {
				list = append(list, v)
			}
		}
		return list
	case "object":
		return g.members(gv, s, depth)
	}
	return nil
}

func (g *generator) members(gv string, s schemaOf, depth int) any {
	o := map[string]any{}
	if s.Additional != nil {
		for range 1 + g.IntN(3) {
			o[g.word()] = g.value(gv, "", *s.Additional, depth+1)
		}
	}
	for _, member := range slices.Sorted(maps.Keys(s.Properties)) {
		if g.IntN(100) < max(20, 90-15*depth) || member == "timeAdded" || slices.Contains(s.Required, member) && depth < 12 {
			if v := g.value(gv, member, s.Properties[member], depth+1); v != nil {
				o[member] = v
			}
		}
	}
	return o
}

func (g *generator) text(member, format string) any {
	switch {
	case format == "date-time":
		return g.time()
	case format == "byte":
		return base64.StdEncoding.EncodeToString([]byte(g.word()))
	case format == "int-or-string":
		return g.pick(80, "50%")
	case member == "ip" || strings.HasSuffix(member, "IP"):
		return g.pick("10.0.0.1", "fd00::1", "None")
	case member == "type" || member == "reason" || member == "status" || member == "phase":
		return g.pick("Ready", "Complete", "Failed", "Approved", "Denied", "Issued", "Suspended", "SuccessCriteriaMet", "FailureTarget", "DisruptionTarget", "Available",
			"PodScheduled", "ContainersReady", "SchedulingGated", "NodeLost", "NodeUnreachable", "InternalIP", "ExternalIP", "True", "False", "Unknown",
			"Utilization", "Value", "AverageValue", "Resource", "Pods", "Object", "External", "ContainerResource", "CrashLoopBackOff", "Completed", "Error", "")
	}
	return g.word()
}

func (g *generator) word() string {
	return g.pick("a", "b", "shop", "web-1", "x.example.com", "team", "blue", "node1", "latest").(string)
}

func (g *generator) pick(from ...any) any { return from[g.IntN(len(from))] }

func (g *generator) time() string {
	return time.Unix(1e9+g.Int64N(4e8), 0).UTC().Format(time.RFC3339)
}

// prefixes are the keys under which etcd has resources, if they differ from the resource's name.
var prefixes = map[string]string{"services": "services/specs", "endpoints": "services/endpoints", "nodes": "minions", "replicationcontrollers": "controllers", "ingresses.networking.k8s.io": "ingress"}

func keyOf(resource *served, namespace, name string) string {
	prefix := prefixes[resource.ID()]
	if prefix == "" {
		prefix = resource.Plural
		if builtin()[resource.ID()] == nil {
			prefix = resource.Group + "/" + resource.Plural
		}
	}
	if namespace != "" {
		name = namespace + "/" + name
	}
	return "/registry/" + prefix + "/" + name
}

// change creates, updates or deletes an object of any kind.
func (g *generator) change() {
	resource := g.kinds[g.IntN(len(g.kinds))]
	g.changeOf(resource)
}

func (g *generator) changeOf(resource *served) {
	etcd, live := g.past.kube.Etcd(), g.live[resource.ID()]
	if len(live) > 12 || len(live) > 3 && g.IntN(5) == 0 {
		i := g.IntN(len(live))
		_, err := etcd.Delete(g.t.Context(), live[i])
		ok(g.t, err)
		g.live[resource.ID()] = slices.Delete(live, i, i+1)
		return
	}
	namespace := ""
	if resource.Namespaced {
		namespace = g.pick("default", "shop", "shop-2").(string)
	}
	name := fmt.Sprint(g.pick("g", "g-x", "g.y"), g.IntN(6))
	key := keyOf(resource, namespace, name)
	object := g.object(resource, namespace, name)
	metadata := object["metadata"].(map[string]any)
	if metadata["uid"] = g.uids[key]; !slices.Contains(live, key) { // another object of that name
		g.live[resource.ID()] = append(live, key)
		metadata["uid"] = string(uuid.NewUUID())
		g.uids[key] = metadata["uid"].(string)
	}
	text := must[[]byte](g.t)(json.Marshal(object))
	_, err := etcd.Put(g.t.Context(), key, string(text))
	ok(g.t, err)
}

// generatedCRDs have several versions, selectable fields and columns of each type.
var generatedCRDs = []string{
	generatedCRD("gadgets", "Gadget", "Namespaced", "v1alpha1", "v1beta1", "v1"),
	generatedCRD("planets", "Planet", "Cluster", "v1beta2", "v1beta1"),
}

func generatedCRD(plural, kind, scope string, versions ...string) string {
	const spec = `"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"colour":{"type":"string"},"size":{"type":"integer"},"on":{"type":"boolean"},
		"weight":{"type":"number"},"when":{"type":"string","format":"date-time"},"parts":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"}}}}}},
		"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"phase":{"type":"string"}}}}}}`
	columns := map[string]string{"v1": `"additionalPrinterColumns":[{"name":"Colour","type":"string","jsonPath":".spec.colour"},{"name":"Size","type":"integer","jsonPath":".spec.size"},
		{"name":"On","type":"boolean","jsonPath":".spec.on"},{"name":"Weight","type":"number","jsonPath":".spec.weight"},{"name":"When","type":"date","jsonPath":".spec.when"},
		{"name":"First","type":"string","jsonPath":".spec.parts[0].name"},{"name":"Parts","type":"string","jsonPath":".spec.parts[*].name","priority":1},
		{"name":"Wrong","type":"integer","jsonPath":".spec.colour"},{"name":"Spec","type":"string","jsonPath":".spec.parts"},{"name":"Escaped","type":"string","jsonPath":".metadata.labels.gen"}],`}
	var all []string
	for i, v := range versions {
		all = append(all, fmt.Sprintf(`{"name":%q,"served":true,"storage":%v,%s"selectableFields":[{"jsonPath":".spec.colour"},{"jsonPath":".spec.size"}],%s}`, v, i == len(versions)-1, columns[v], spec))
	}
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.gen.example.com"},"spec":{"group":"gen.example.com",
		"scope":%[2]q,"names":{"plural":%[1]q,"singular":%[3]q,"kind":%[4]q,"shortNames":[%[5]q],"categories":["all"]},"versions":[%[6]s]}}`,
		plural, scope, strings.ToLower(kind), kind, plural[:3], strings.Join(all, ","))
}
