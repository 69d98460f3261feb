package cells

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
)

func age(r *Row) any            { return r.since(r.Text("metadata.creationTimestamp"), "<invalid>") }
func orNone(text string) string { return orText(text, "<none>") }

func orText(text, without string) string {
	if text == "" {
		return without
	}
	return text
}

// Labels returns the texts of a member, by name.
func (r *Row) Labels(path string) map[string]string {
	m, _ := r.member(path).(map[string]any)
	set := map[string]string{}
	for name, value := range m {
		set[name] = TextOf(value)
	}
	return set
}

func (r *Row) selector(path string) *metav1.LabelSelector {
	if r.member(path) == nil {
		return nil
	}
	raw, s := Compact(r.member(path)), &metav1.LabelSelector{}
	_ = json.Unmarshal([]byte(raw), s)
	return s
}

func selector(args []string) Cell {
	return func(r *Row) any { return metav1.FormatLabelSelector(r.selector(args[0])) }
}

func asSelector(args []string) Cell {
	return func(r *Row) any {
		s, err := metav1.LabelSelectorAsSelector(r.selector(args[0]))
		if err != nil {
			return "<invalid>"
		}
		return s.String()
	}
}

func migrated(r *Row) any {
	return schema.GroupResource{Group: r.Text("spec.resource.group"), Resource: r.Text("spec.resource.resource")}.String()
}

func (r *Row) isCondition(kind string) bool {
	return r.has("status.conditions[type=" + kind + ",status=True]")
}

func (r *Row) deleted() bool { return r.member("metadata.deletionTimestamp") != nil }

func phase(r *Row) any {
	if r.deleted() {
		return "Terminating"
	}
	return r.Text("status.phase")
}

func class(r *Row) any {
	annotations, _ := r.member("metadata.annotations").(map[string]any)
	if old := TextOf(annotations["volume.beta.kubernetes.io/storage-class"]); old != "" {
		return old
	}
	return r.Text("spec.storageClassName")
}

func modes(args []string) Cell {
	return func(r *Row) any {
		var short []string
		has := r.texts(args[0] + "[*]")
		for _, mode := range [][2]string{{"ReadWriteOnce", "RWO"}, {"ReadOnlyMany", "ROX"}, {"ReadWriteMany", "RWX"},
			{"ReadWriteOncePod", "RWOP"}} {
			if slices.Contains(has, mode[0]) {
				short = append(short, mode[1])
			}
		}
		return strings.Join(short, ",")
	}
}

// some joins the first three texts of a list, and adds the number of the others.
func some(all []string, without string) string {
	switch {
	case len(all) == 0:
		return without
	case len(all) > 3:
		return fmt.Sprintf("%s + %d more...", strings.Join(all[:3], ","), len(all)-3)
	}
	return orText(strings.Join(all, ","), without)
}

func endpoints(r *Row) any {
	var all []string
	for _, subset := range r.list("subsets") {
		ports, addresses := listOf(MemberAt(subset, "ports")), listOf(MemberAt(subset, "addresses"))
		for _, a := range addresses {
			if len(ports) == 0 {
				all = append(all, TextOf(MemberAt(a, "ip")))
			}
		}
		for _, port := range ports {
			for _, a := range addresses {
				all = append(all, net.JoinHostPort(TextOf(MemberAt(a, "ip")), TextOf(MemberAt(port, "port"))))
			}
		}
	}
	if len(r.list("subsets")) == 0 {
		return "<none>"
	}
	return some(all, "")
}

func slicePorts(r *Row) any {
	var all []string
	for _, p := range r.list("ports") {
		switch {
		case MemberAt(p, "port") != nil:
			all = append(all, TextOf(MemberAt(p, "port")))
		case MemberAt(p, "name") != nil:
			all = append(all, TextOf(MemberAt(p, "name")))
		default:
			all = append(all, "*")
		}
	}
	return some(all, "<unset>")
}

// The cells of an Event have the names of its members as arguments, which differ between its two groups.

func (r *Row) firstSeen(first string) string {
	return r.since(orText(r.Text(first), r.Text("eventTime")), "<invalid>")
}

func eventLast(args []string) Cell {
	return func(r *Row) any {
		switch {
		case r.has("series"):
			return r.since(r.Text("series.lastObservedTime"), "<invalid>")
		case r.Text(args[0]) == "":
			return r.firstSeen(args[1])
		}
		return r.since(r.Text(args[0]), "<invalid>")
	}
}

func eventSubject(args []string) Cell {
	return func(r *Row) any {
		kind, name := strings.ToLower(r.Text(args[0]+".kind")), r.Text(args[0]+".name")
		if name != "" {
			return kind + "/" + name
		}
		return kind
	}
}

func eventSource(args []string) Cell {
	return func(r *Row) any {
		component := orText(orText(r.Text(args[0]+".component"), r.Text("reportingComponent")), r.Text("reportingController"))
		if instance := orText(r.Text(args[0]+".host"), r.Text("reportingInstance")); instance != "" {
			return component + ", " + instance
		}
		return component
	}
}

func eventCount(args []string) Cell {
	return func(r *Row) any {
		if r.has("series") {
			return r.number("series.count")
		}
		return max(1, r.number(args[0]))
	}
}

func quota(args []string) Cell {
	return func(r *Row) any {
		hard, _ := r.member("status.hard").(map[string]any)
		used, _ := r.member("status.used").(map[string]any)
		var all []string
		for _, name := range slices.Sorted(maps.Keys(hard)) {
			if strings.HasPrefix(name, "limits.") == (args[0] == "limits") {
				all = append(all, fmt.Sprintf("%s: %s/%s", name, orText(TextOf(used[name]), "0"), TextOf(hard[name])))
			}
		}
		return strings.Join(all, ", ")
	}
}

func nodeStatus(r *Row) any {
	status := "Unknown"
	for _, ready := range r.texts("status.conditions[type=Ready].status") {
		if status = "NotReady"; ready == "True" {
			status = "Ready"
		}
	}
	if disabled, _ := r.member("spec.unschedulable").(bool); disabled {
		status += ",SchedulingDisabled"
	}
	return status
}

func nodeRoles(r *Row) any {
	roles := map[string]bool{}
	for name, value := range r.Labels("metadata.labels") {
		if role, found := strings.CutPrefix(name, "node-role.kubernetes.io/"); found && role != "" {
			roles[role] = true
		} else if name == "kubernetes.io/role" && value != "" {
			roles[value] = true
		}
	}
	return orNone(strings.Join(slices.Sorted(maps.Keys(roles)), ","))
}

func kernel(r *Row) any {
	version := orText(r.Text("status.nodeInfo.kernelVersion"), "<unknown>")
	if architecture := r.Text("status.nodeInfo.architecture"); architecture != "" {
		return version + " (" + architecture + ")"
	}
	return version
}

// loadBalancer returns the addresses of a load balancer.
func loadBalancer(r *Row) string {
	addresses := map[string]bool{}
	for _, i := range r.list("status.loadBalancer.ingress") {
		if a := orText(TextOf(MemberAt(i, "ip")), TextOf(MemberAt(i, "hostname"))); a != "" {
			addresses[a] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(addresses)), ",")
}

func externalIP(r *Row) any {
	ips := r.texts("spec.externalIPs[*]")
	switch r.Text("spec.type") {
	case "ClusterIP", "NodePort":
		return orNone(strings.Join(ips, ","))
	case "LoadBalancer":
		if balanced := loadBalancer(r); balanced != "" {
			ips = append([]string{balanced}, ips...)
		}
		return orText(strings.Join(ips, ","), "<pending>")
	case "ExternalName":
		return r.Text("spec.externalName")
	}
	return "<unknown>"
}

func servicePorts(r *Row) any {
	var all []string
	for _, p := range r.list("spec.ports") {
		port := TextOf(MemberAt(p, "port"))
		if node := NumberOf(MemberAt(p, "nodePort")); node > 0 {
			port += ":" + strconv.FormatInt(node, 10)
		}
		all = append(all, port+"/"+TextOf(MemberAt(p, "protocol")))
	}
	return orNone(strings.Join(all, ","))
}

func apiServiceAvailable(r *Row) any {
	const available = "status.conditions[type=Available]"
	switch status := r.Text(available + ".status"); {
	case !r.has(available):
		return "Unknown"
	case status != "True":
		return fmt.Sprintf("%s (%s)", status, r.Text(available+".reason"))
	}
	return "True"
}

func controller(r *Row) any {
	for _, o := range r.list("metadata.ownerReferences") {
		if isController, _ := MemberAt(o, "controller").(bool); isController {
			gv, _ := schema.ParseGroupVersion(TextOf(MemberAt(o, "apiVersion")))
			return strings.ToLower(gv.WithKind(TextOf(MemberAt(o, "kind"))).GroupKind().String()) + "/" +
				TextOf(MemberAt(o, "name"))
		}
	}
	return "<none>"
}

func jobStatus(r *Row) any {
	switch {
	case r.isCondition("Complete"):
		return "Complete"
	case r.isCondition("Failed"):
		return "Failed"
	case r.deleted():
		return "Terminating"
	}
	for _, c := range []string{"Suspended", "FailureTarget", "SuccessCriteriaMet"} {
		if r.isCondition(c) {
			return c
		}
	}
	return "Running"
}

func completions(r *Row) any {
	done, parallel := r.number("status.succeeded"), r.number("spec.parallelism")
	switch {
	case r.member("spec.completions") != nil:
		return fmt.Sprintf("%d/%d", done, r.number("spec.completions"))
	case parallel > 1:
		return fmt.Sprintf("%d/1 of %d", done, parallel)
	}
	return fmt.Sprintf("%d/1", done)
}

func jobDuration(r *Row) any {
	start, err := time.Parse(time.RFC3339, r.Text("status.startTime"))
	if err != nil {
		return ""
	}
	end, err := time.Parse(time.RFC3339, r.Text("status.completionTime"))
	if err != nil {
		end = r.Now
	}
	return duration.HumanDuration(end.Sub(start))
}

func requestedDuration(r *Row) any {
	if r.member("spec.expirationSeconds") == nil {
		return "<none>"
	}
	return duration.HumanDuration(time.Duration(r.number("spec.expirationSeconds")) * time.Second)
}

func csrStatus(r *Row) any {
	has := map[string]bool{}
	for _, kind := range r.texts("status.conditions[*].type") {
		has[kind] = true
	}
	status := "Pending"
	if has["Denied"] {
		status = "Denied"
	} else if has["Approved"] {
		status = "Approved"
	}
	if has["Failed"] {
		status += ",Failed"
	}
	if r.Text("status.certificate") != "" {
		status += ",Issued"
	}
	return status
}

func ingressParameters(r *Row) any {
	if r.member("spec.parameters") == nil {
		return "<none>"
	}
	kind := r.Text("spec.parameters.kind")
	if group := r.member("spec.parameters.apiGroup"); group != nil {
		kind += "." + TextOf(group)
	}
	return kind + "/" + r.Text("spec.parameters.name")
}

func parentRef(r *Row) any {
	if r.member("spec.parentRef") == nil {
		return "<none>"
	}
	name := strings.ToLower(schema.GroupResource{Group: r.Text("spec.parentRef.group"),
		Resource: r.Text("spec.parentRef.resource")}.String())
	if namespace := r.Text("spec.parentRef.namespace"); namespace != "" {
		name += "/" + namespace
	}
	return name + "/" + r.Text("spec.parentRef.name")
}

func hosts(r *Row) any {
	rules, list, more := r.list("spec.rules"), []string{}, false
	for _, host := range r.texts("spec.rules[*].host") {
		more = more || len(list) == 3
		if !more && host != "" {
			list = append(list, host)
		}
	}
	switch {
	case len(list) == 0:
		return "*"
	case more:
		return fmt.Sprintf("%s + %d more...", strings.Join(list, ","), len(rules)-3)
	}
	return strings.Join(list, ",")
}

func ingressPorts(r *Row) any {
	if len(r.list("spec.tls")) > 0 {
		return "80, 443"
	}
	return "80"
}

func serviceAccounts(r *Row) any {
	var all []string
	for _, s := range valuesAt(r.Object, "subjects[kind=ServiceAccount]") {
		all = append(all, TextOf(MemberAt(s, "namespace"))+"/"+TextOf(MemberAt(s, "name")))
	}
	return strings.Join(all, ", ")
}

func paramRef(r *Row) any {
	switch name := r.Text("spec.paramRef.name"); {
	case name != "":
		return orText(r.Text("spec.paramRef.namespace"), "*") + "/" + name
	case r.member("spec.paramRef.selector") != nil:
		return r.selector("spec.paramRef.selector").String()
	}
	return "<unset>"
}

func crdVersions(r *Row) any {
	var all []string
	for _, v := range r.list("spec.versions") {
		name := TextOf(MemberAt(v, "name"))
		if storage, _ := MemberAt(v, "storage").(bool); storage {
			name += "(storage)"
		}
		if served, _ := MemberAt(v, "served").(bool); served {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

func claimState(r *Row) any {
	var states []string
	if r.deleted() {
		states = append(states, "deleted")
	}
	switch {
	case r.member("status.allocation") != nil:
		states = append(states, "allocated")
		if len(r.list("status.reservedFor")) > 0 {
			states = append(states, "reserved")
		}
	case !r.deleted():
		states = append(states, "pending")
	}
	return strings.Join(states, ",")
}
