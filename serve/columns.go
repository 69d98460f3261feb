package serve

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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
)

// tables has the cells of the built-in resources after the name, as kube-apiserver's printers compute them
// (k8s.io/kubernetes/pkg/printers/internalversion).
var tables = map[string][]cell{
	"persistentvolumeclaims": {phase, text("spec.volumeName"), claimed(or("status.capacity.storage", "0")), claimed(modes("status.accessModes")), class, or("spec.volumeAttributesClassName", "<unset>"), age, or("spec.volumeMode", "<unset>")},
	"persistentvolumes":      {or("spec.capacity.storage", "0"), modes("spec.accessModes"), text("spec.persistentVolumeReclaimPolicy"), phase, claim, class, or("spec.volumeAttributesClassName", "<unset>"), text("status.reason"), age, or("spec.volumeMode", "<unset>")},
	"serviceaccounts":        {age},
	"limitranges":            {created},
	"endpoints":              {endpoints, age},
	"events":                 event("involvedObject", "firstTimestamp", "lastTimestamp", "count", "source", "message"),
	"secrets":                {text("type"), count("data"), age},
	"resourcequotas":         {quota(false), quota(true), age},
	"configmaps":             {count("data", "binaryData"), age},
	"nodes":                  {nodeStatus, nodeRoles, age, text("status.nodeInfo.kubeletVersion"), nodeAddress("InternalIP"), nodeAddress("ExternalIP"), or("status.nodeInfo.osImage", "<unknown>"), kernel, or("status.nodeInfo.containerRuntimeVersion", "<unknown>")},
	"namespaces":             {text("status.phase"), age},
	"services":               {text("spec.type"), clusterIP, externalIP, servicePorts, age, labelled("spec.selector")},
	"replicationcontrollers": {number("spec.replicas"), number("status.replicas"), number("status.readyReplicas"), age, containers("spec.template"), images("spec.template"), labelled("spec.selector")},
	"pods":                   {podReady, podStatus, podRestarts, age, podIP, or("spec.nodeName", "<none>"), or("status.nominatedNodeName", "<none>"), readinessGates},
	"podtemplates":           {containers("template"), images("template"), labelled("template.metadata.labels")},

	"apiservices.apiregistration.k8s.io":   {apiService, apiServiceAvailable, age},
	"controllerrevisions.apps":             {controller, number("revision"), age},
	"statefulsets.apps":                    {ratio("status.readyReplicas", "spec.replicas"), age, containers("spec.template"), images("spec.template")},
	"daemonsets.apps":                      {number("status.desiredNumberScheduled"), number("status.currentNumberScheduled"), number("status.numberReady"), number("status.updatedNumberScheduled"), number("status.numberAvailable"), labelled("spec.template.spec.nodeSelector"), age, containers("spec.template"), images("spec.template"), selector("spec.selector")},
	"replicasets.apps":                     {number("spec.replicas"), number("status.replicas"), number("status.readyReplicas"), age, containers("spec.template"), images("spec.template"), selector("spec.selector")},
	"deployments.apps":                     {ratio("status.readyReplicas", "spec.replicas"), number("status.updatedReplicas"), number("status.availableReplicas"), age, containers("spec.template"), images("spec.template"), asSelector("spec.selector")},
	"events.events.k8s.io":                 event("regarding", "deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount", "deprecatedSource", "note"),
	"horizontalpodautoscalers.autoscaling": {join("/", "spec.scaleTargetRef.kind", "spec.scaleTargetRef.name"), metrics, or("spec.minReplicas", "<unset>"), number("spec.maxReplicas"), number("status.currentReplicas"), age},
	"cronjobs.batch":                       {text("spec.schedule"), or("spec.timeZone", "<none>"), capital("spec.suspend"), count("status.active"), ago("status.lastScheduleTime", "<none>"), age, containers("spec.jobTemplate.spec.template"), images("spec.jobTemplate.spec.template"), selector("spec.jobTemplate.spec.selector")},
	"jobs.batch":                           {jobStatus, completions, jobDuration, age, containers("spec.template"), images("spec.template"), selector("spec.selector")},

	"clustertrustbundles.certificates.k8s.io":        {or("spec.signerName", "<none>")},
	"podcertificaterequests.certificates.k8s.io":     {text("spec.podName"), text("spec.serviceAccountName"), text("spec.nodeName"), text("spec.signerName"), condition("Pending", "Issued", "Denied", "Failed"), labelled("spec.unverifiedUserAnnotations")},
	"certificatesigningrequests.certificates.k8s.io": {age, or("spec.signerName", "<none>"), text("spec.username"), requestedDuration, csrStatus},
	"ingressclasses.networking.k8s.io":               {text("spec.controller"), ingressParameters, age},
	"servicecidrs.networking.k8s.io":                 {joined("spec.cidrs"), age},
	"ipaddresses.networking.k8s.io":                  {parentRef, age},
	"ingresses.networking.k8s.io":                    {or("spec.ingressClassName", "<none>"), hosts, func(r *row) any { return loadBalancer(r) }, ingressPorts, age},
	"networkpolicies.networking.k8s.io":              {selector("spec.podSelector"), age},
	"poddisruptionbudgets.policy":                    {or("spec.minAvailable", "N/A"), or("spec.maxUnavailable", "N/A"), number("status.disruptionsAllowed"), age},

	"clusterroles.rbac.authorization.k8s.io":        {created},
	"roles.rbac.authorization.k8s.io":               {created},
	"rolebindings.rbac.authorization.k8s.io":        {join("/", "roleRef.kind", "roleRef.name"), age, subjects("User"), subjects("Group"), subjects("ServiceAccount")},
	"clusterrolebindings.rbac.authorization.k8s.io": {join("/", "roleRef.kind", "roleRef.name"), age, subjects("User"), subjects("Group"), subjects("ServiceAccount")},

	"csidrivers.storage.k8s.io":              {boolean("spec.attachRequired", true), boolean("spec.podInfoOnMount", false), boolean("spec.storageCapacity", false), tokenRequests, boolean("spec.requiresRepublish", false), func(r *row) any { return orNone(strings.Join(r.texts("spec.volumeLifecycleModes"), ",")) }, age},
	"csinodes.storage.k8s.io":                {count("spec.drivers"), age},
	"volumeattachments.storage.k8s.io":       {text("spec.attacher"), text("spec.source.persistentVolumeName"), text("spec.nodeName"), boolean("status.attached", false), age},
	"volumeattributesclasses.storage.k8s.io": {text("driverName"), age},
	"csistoragecapacities.storage.k8s.io":    {created},
	"storageclasses.storage.k8s.io":          {text("provisioner"), or("reclaimPolicy", "Delete"), or("volumeBindingMode", "Immediate"), boolean("allowVolumeExpansion", false), age},

	"validatingadmissionpolicies.admissionregistration.k8s.io":       {count("spec.validations"), paramKind, age},
	"mutatingadmissionpolicies.admissionregistration.k8s.io":         {count("spec.mutations"), paramKind, age},
	"validatingadmissionpolicybindings.admissionregistration.k8s.io": {text("spec.policyName"), paramRef, age},
	"mutatingadmissionpolicybindings.admissionregistration.k8s.io":   {text("spec.policyName"), paramRef, age},
	"validatingwebhookconfigurations.admissionregistration.k8s.io":   {count("webhooks"), age},
	"mutatingwebhookconfigurations.admissionregistration.k8s.io":     {count("webhooks"), age},

	"customresourcedefinitions.apiextensions.k8s.io":           {text("spec.scope"), crdVersions, created, text("spec.group"), text("spec.names.kind"), joined("spec.names.shortNames"), established},
	"priorityclasses.scheduling.k8s.io":                        {number("value"), boolean("globalDefault", false), age, text("preemptionPolicy")},
	"leases.coordination.k8s.io":                               {text("spec.holderIdentity"), age},
	"runtimeclasses.node.k8s.io":                               {text("handler"), age},
	"endpointslices.discovery.k8s.io":                          {text("addressType"), slicePorts, sliceEndpoints, age},
	"resourceslices.resource.k8s.io":                           {text("spec.nodeName"), text("spec.driver"), text("spec.pool.name"), age},
	"resourceclaimtemplates.resource.k8s.io":                   {age},
	"deviceclasses.resource.k8s.io":                            {age},
	"devicetaintrules.resource.k8s.io":                         {text("spec.taint.key"), text("spec.taint.value"), text("spec.taint.effect"), ago("spec.taint.timeAdded", ""), age},
	"storageversionmigrations.storagemigration.k8s.io":         {migrated, trueCondition("Unknown", "Running", "Failed", "Succeeded")},
	"resourceclaims.resource.k8s.io":                           {claimState, age},
	"flowschemas.flowcontrol.apiserver.k8s.io":                 {text("spec.priorityLevelConfiguration.name"), number("spec.matchingPrecedence"), or("spec.distinguisherMethod.type", "<none>"), age, dangling},
	"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": {text("spec.type"), orNoneNumber("spec.limited.nominalConcurrencyShares"), orNoneNumber("spec.limited.limitResponse.queuing.queues"), orNoneNumber("spec.limited.limitResponse.queuing.handSize"), orNoneNumber("spec.limited.limitResponse.queuing.queueLengthLimit"), age},
}

func text(path string) cell     { return func(r *row) any { return r.text(path) } }
func number(path string) cell   { return func(r *row) any { return r.number(path) } }
func joined(path string) cell   { return func(r *row) any { return strings.Join(r.texts(path), ",") } }
func age(r *row) any            { return r.since(r.text("metadata.creationTimestamp"), "<invalid>") }
func created(r *row) any        { return r.text("metadata.creationTimestamp") }
func orNone(text string) string { return orText(text, "<none>") }
func labelled(path string) cell {
	return func(r *row) any { return labels.FormatLabels(r.labels(path)) }
}
func containers(path string) cell  { return members(path+".spec.containers", "name") }
func images(path string) cell      { return members(path+".spec.containers", "image") }
func or(path, without string) cell { return func(r *row) any { return orText(r.text(path), without) } }

func orText(text, without string) string {
	if text == "" {
		return without
	}
	return text
}

func orNoneNumber(path string) cell {
	return func(r *row) any {
		if r.member(path) == nil {
			return "<none>"
		}
		return r.number(path)
	}
}

func boolean(path string, without bool) cell {
	return func(r *row) any {
		if b, known := r.member(path).(bool); known {
			return b
		}
		return without
	}
}

func capital(path string) cell {
	return func(r *row) any {
		b, known := r.member(path).(bool)
		switch {
		case !known:
			return "<unset>"
		case b:
			return "True"
		}
		return "False"
	}
}

func ago(path, without string) cell {
	return func(r *row) any {
		if r.member(path) == nil {
			return without
		}
		return r.since(r.text(path), "<invalid>")
	}
}

func count(paths ...string) cell {
	return func(r *row) any {
		n := 0
		for _, path := range paths {
			switch v := r.member(path).(type) {
			case []any:
				n += len(v)
			case map[string]any:
				n += len(v)
			}
		}
		return int64(n)
	}
}

func ratio(path, total string) cell {
	return func(r *row) any { return fmt.Sprintf("%d/%d", r.number(path), r.number(total)) }
}

func join(separator string, paths ...string) cell {
	return func(r *row) any {
		var all []string
		for _, path := range paths {
			all = append(all, r.text(path))
		}
		return strings.Join(all, separator)
	}
}

// members joins a member of all items of a list.
func members(path, member string) cell {
	return func(r *row) any {
		var all []string
		for _, item := range r.list(path) {
			all = append(all, textOf(memberAt(item, member)))
		}
		return strings.Join(all, ",")
	}
}

func (r *row) labels(path string) map[string]string {
	m, _ := r.member(path).(map[string]any)
	set := map[string]string{}
	for name, value := range m {
		set[name] = textOf(value)
	}
	return set
}

func (r *row) selector(path string) *metav1.LabelSelector {
	if r.member(path) == nil {
		return nil
	}
	raw, s := compact(r.member(path)), &metav1.LabelSelector{}
	_ = json.Unmarshal([]byte(raw), s)
	return s
}

func selector(path string) cell {
	return func(r *row) any { return metav1.FormatLabelSelector(r.selector(path)) }
}

func asSelector(path string) cell {
	return func(r *row) any {
		s, err := metav1.LabelSelectorAsSelector(r.selector(path))
		if err != nil {
			return "<invalid>"
		}
		return s.String()
	}
}

// condition returns a cell with the type of the last condition that has one of these types, or with the text without if none has.
func condition(without string, types ...string) cell {
	return func(r *row) any {
		state := without
		for _, c := range r.list("status.conditions") {
			if t := textOf(memberAt(c, "type")); slices.Contains(types, t) {
				state = t
			}
		}
		return state
	}
}

// trueCondition returns the cell of condition for conditions that are true.
func trueCondition(without string, types ...string) cell {
	return func(r *row) any {
		state := without
		for _, c := range r.list("status.conditions") {
			if t := textOf(memberAt(c, "type")); slices.Contains(types, t) && textOf(memberAt(c, "status")) == "True" {
				state = t
			}
		}
		return state
	}
}

func migrated(r *row) any {
	return schema.GroupResource{Group: r.text("spec.resource.group"), Resource: r.text("spec.resource.resource")}.String()
}

func (r *row) isCondition(kind string) bool {
	return slices.ContainsFunc(r.list("status.conditions"), func(c any) bool {
		return textOf(memberAt(c, "type")) == kind && textOf(memberAt(c, "status")) == "True"
	})
}

func (r *row) deleted() bool { return r.member("metadata.deletionTimestamp") != nil }

func phase(r *row) any {
	if r.deleted() {
		return "Terminating"
	}
	return r.text("status.phase")
}

func class(r *row) any {
	annotations, _ := r.member("metadata.annotations").(map[string]any)
	if old := textOf(annotations["volume.beta.kubernetes.io/storage-class"]); old != "" {
		return old
	}
	return r.text("spec.storageClassName")
}

func claim(r *row) any {
	if r.member("spec.claimRef") == nil {
		return ""
	}
	return join("/", "spec.claimRef.namespace", "spec.claimRef.name")(r)
}

// claimed returns a cell that is empty unless the claim has a volume.
func claimed(c cell) cell {
	return func(r *row) any {
		if r.text("spec.volumeName") == "" {
			return ""
		}
		return c(r)
	}
}

func modes(path string) cell {
	return func(r *row) any {
		var short []string
		has := r.texts(path)
		for _, mode := range [][2]string{{"ReadWriteOnce", "RWO"}, {"ReadOnlyMany", "ROX"}, {"ReadWriteMany", "RWX"}, {"ReadWriteOncePod", "RWOP"}} {
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

func endpoints(r *row) any {
	var all []string
	for _, subset := range r.list("subsets") {
		ports, addresses := listOf(memberAt(subset, "ports")), listOf(memberAt(subset, "addresses"))
		for _, a := range addresses {
			if len(ports) == 0 {
				all = append(all, textOf(memberAt(a, "ip")))
			}
		}
		for _, port := range ports {
			for _, a := range addresses {
				all = append(all, net.JoinHostPort(textOf(memberAt(a, "ip")), textOf(memberAt(port, "port"))))
			}
		}
	}
	if len(r.list("subsets")) == 0 {
		return "<none>"
	}
	return some(all, "")
}

func slicePorts(r *row) any {
	var all []string
	for _, p := range r.list("ports") {
		switch {
		case memberAt(p, "port") != nil:
			all = append(all, textOf(memberAt(p, "port")))
		case memberAt(p, "name") != nil:
			all = append(all, textOf(memberAt(p, "name")))
		default:
			all = append(all, "*")
		}
	}
	return some(all, "<unset>")
}

func sliceEndpoints(r *row) any {
	var all []string
	for _, e := range r.list("endpoints") {
		for _, a := range listOf(memberAt(e, "addresses")) {
			all = append(all, textOf(a))
		}
	}
	return some(all, "<unset>")
}

// event returns the cells of an Event, for either of its two groups.
func event(subject, first, last, count, source, message string) []cell {
	firstSeen := func(r *row) any { return r.since(orText(r.text(first), r.text("eventTime")), "<invalid>") }
	return []cell{
		func(r *row) any {
			if r.member("series") != nil {
				return r.since(r.text("series.lastObservedTime"), "<invalid>")
			}
			if r.text(last) == "" {
				return firstSeen(r)
			}
			return r.since(r.text(last), "<invalid>")
		},
		text("type"), text("reason"),
		func(r *row) any {
			kind := strings.ToLower(r.text(subject + ".kind"))
			if name := r.text(subject + ".name"); name != "" {
				return kind + "/" + name
			}
			return kind
		},
		text(subject + ".fieldPath"),
		func(r *row) any {
			component := orText(orText(r.text(source+".component"), r.text("reportingComponent")), r.text("reportingController"))
			if instance := orText(r.text(source+".host"), r.text("reportingInstance")); instance != "" {
				return component + ", " + instance
			}
			return component
		},
		func(r *row) any { return strings.TrimSpace(r.text(message)) },
		firstSeen,
		func(r *row) any {
			if r.member("series") != nil {
				return r.number("series.count")
			}
			return max(1, r.number(count))
		},
		text("metadata.name"),
	}
}

func quota(limits bool) cell {
	return func(r *row) any {
		hard, _ := r.member("status.hard").(map[string]any)
		used, _ := r.member("status.used").(map[string]any)
		var all []string
		for _, name := range slices.Sorted(maps.Keys(hard)) {
			if strings.HasPrefix(name, "limits.") == limits {
				all = append(all, fmt.Sprintf("%s: %s/%s", name, orText(textOf(used[name]), "0"), textOf(hard[name])))
			}
		}
		return strings.Join(all, ", ")
	}
}

func nodeStatus(r *row) any {
	status := "Unknown"
	for _, c := range r.list("status.conditions") {
		if textOf(memberAt(c, "type")) == "Ready" {
			status = "NotReady"
			if textOf(memberAt(c, "status")) == "True" {
				status = "Ready"
			}
		}
	}
	if disabled, _ := r.member("spec.unschedulable").(bool); disabled {
		status += ",SchedulingDisabled"
	}
	return status
}

func nodeRoles(r *row) any {
	roles := map[string]bool{}
	for name, value := range r.labels("metadata.labels") {
		if role, found := strings.CutPrefix(name, "node-role.kubernetes.io/"); found && role != "" {
			roles[role] = true
		} else if name == "kubernetes.io/role" && value != "" {
			roles[value] = true
		}
	}
	return orNone(strings.Join(slices.Sorted(maps.Keys(roles)), ","))
}

func nodeAddress(kind string) cell {
	return func(r *row) any {
		for _, a := range r.list("status.addresses") {
			if textOf(memberAt(a, "type")) == kind {
				return textOf(memberAt(a, "address"))
			}
		}
		return "<none>"
	}
}

func kernel(r *row) any {
	version := orText(r.text("status.nodeInfo.kernelVersion"), "<unknown>")
	if architecture := r.text("status.nodeInfo.architecture"); architecture != "" {
		return version + " (" + architecture + ")"
	}
	return version
}

func clusterIP(r *row) any {
	if ips := r.texts("spec.clusterIPs"); len(ips) > 0 {
		return ips[0]
	}
	return "<none>"
}

// loadBalancer returns the addresses of a load balancer.
func loadBalancer(r *row) string {
	addresses := map[string]bool{}
	for _, i := range r.list("status.loadBalancer.ingress") {
		if a := orText(textOf(memberAt(i, "ip")), textOf(memberAt(i, "hostname"))); a != "" {
			addresses[a] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(addresses)), ",")
}

func externalIP(r *row) any {
	ips := r.texts("spec.externalIPs")
	switch r.text("spec.type") {
	case "ClusterIP", "NodePort":
		return orNone(strings.Join(ips, ","))
	case "LoadBalancer":
		if balanced := loadBalancer(r); balanced != "" {
			ips = append([]string{balanced}, ips...)
		}
		return orText(strings.Join(ips, ","), "<pending>")
	case "ExternalName":
		return r.text("spec.externalName")
	}
	return "<unknown>"
}

func servicePorts(r *row) any {
	var all []string
	for _, p := range r.list("spec.ports") {
		port := textOf(memberAt(p, "port"))
		if node := numberOf(memberAt(p, "nodePort")); node > 0 {
			port += ":" + strconv.FormatInt(node, 10)
		}
		all = append(all, port+"/"+textOf(memberAt(p, "protocol")))
	}
	return orNone(strings.Join(all, ","))
}

func apiService(r *row) any {
	if r.member("spec.service") == nil {
		return "Local"
	}
	return join("/", "spec.service.namespace", "spec.service.name")(r)
}

func apiServiceAvailable(r *row) any {
	for _, c := range r.list("status.conditions") {
		if textOf(memberAt(c, "type")) != "Available" {
			continue
		}
		if status := textOf(memberAt(c, "status")); status != "True" {
			return fmt.Sprintf("%s (%s)", status, textOf(memberAt(c, "reason")))
		}
		return "True"
	}
	return "Unknown"
}

func controller(r *row) any {
	for _, o := range r.list("metadata.ownerReferences") {
		if isController, _ := memberAt(o, "controller").(bool); isController {
			gv, _ := schema.ParseGroupVersion(textOf(memberAt(o, "apiVersion")))
			return strings.ToLower(gv.WithKind(textOf(memberAt(o, "kind"))).GroupKind().String()) + "/" + textOf(memberAt(o, "name"))
		}
	}
	return "<none>"
}

func jobStatus(r *row) any {
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

func completions(r *row) any {
	done, parallel := r.number("status.succeeded"), r.number("spec.parallelism")
	switch {
	case r.member("spec.completions") != nil:
		return fmt.Sprintf("%d/%d", done, r.number("spec.completions"))
	case parallel > 1:
		return fmt.Sprintf("%d/1 of %d", done, parallel)
	}
	return fmt.Sprintf("%d/1", done)
}

func jobDuration(r *row) any {
	start, err := time.Parse(time.RFC3339, r.text("status.startTime"))
	if err != nil {
		return ""
	}
	end, err := time.Parse(time.RFC3339, r.text("status.completionTime"))
	if err != nil {
		end = r.now
	}
	return duration.HumanDuration(end.Sub(start))
}

func requestedDuration(r *row) any {
	if r.member("spec.expirationSeconds") == nil {
		return "<none>"
	}
	return duration.HumanDuration(time.Duration(r.number("spec.expirationSeconds")) * time.Second)
}

func csrStatus(r *row) any {
	has := map[string]bool{}
	for _, c := range r.list("status.conditions") {
		has[textOf(memberAt(c, "type"))] = true
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
	if r.text("status.certificate") != "" {
		status += ",Issued"
	}
	return status
}

func ingressParameters(r *row) any {
	if r.member("spec.parameters") == nil {
		return "<none>"
	}
	kind := r.text("spec.parameters.kind")
	if group := r.member("spec.parameters.apiGroup"); group != nil {
		kind += "." + textOf(group)
	}
	return kind + "/" + r.text("spec.parameters.name")
}

func parentRef(r *row) any {
	if r.member("spec.parentRef") == nil {
		return "<none>"
	}
	name := strings.ToLower(schema.GroupResource{Group: r.text("spec.parentRef.group"), Resource: r.text("spec.parentRef.resource")}.String())
	if namespace := r.text("spec.parentRef.namespace"); namespace != "" {
		name += "/" + namespace
	}
	return name + "/" + r.text("spec.parentRef.name")
}

func hosts(r *row) any {
	rules, list, more := r.list("spec.rules"), []string{}, false
	for _, rule := range rules {
		more = more || len(list) == 3
		if host := textOf(memberAt(rule, "host")); !more && host != "" {
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

func ingressPorts(r *row) any {
	if len(r.list("spec.tls")) > 0 {
		return "80, 443"
	}
	return "80"
}

func subjects(kind string) cell {
	return func(r *row) any {
		var all []string
		for _, s := range r.list("subjects") {
			if textOf(memberAt(s, "kind")) != kind {
				continue
			}
			name := textOf(memberAt(s, "name"))
			if kind == "ServiceAccount" {
				name = textOf(memberAt(s, "namespace")) + "/" + name
			}
			all = append(all, name)
		}
		return strings.Join(all, ", ")
	}
}

func tokenRequests(r *row) any {
	if r.member("spec.tokenRequests") == nil {
		return "<unset>"
	}
	return members("spec.tokenRequests", "audience")(r)
}

func paramKind(r *row) any {
	if r.member("spec.paramKind") == nil {
		return "<unset>"
	}
	return join("/", "spec.paramKind.apiVersion", "spec.paramKind.kind")(r)
}

func paramRef(r *row) any {
	switch name := r.text("spec.paramRef.name"); {
	case name != "":
		return orText(r.text("spec.paramRef.namespace"), "*") + "/" + name
	case r.member("spec.paramRef.selector") != nil:
		return r.selector("spec.paramRef.selector").String()
	}
	return "<unset>"
}

func crdVersions(r *row) any {
	var all []string
	for _, v := range r.list("spec.versions") {
		name := textOf(memberAt(v, "name"))
		if storage, _ := memberAt(v, "storage").(bool); storage {
			name += "(storage)"
		}
		if served, _ := memberAt(v, "served").(bool); served {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

func established(r *row) any { return r.isCondition("Established") }

func claimState(r *row) any {
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

func dangling(r *row) any {
	for _, c := range r.list("status.conditions") {
		if textOf(memberAt(c, "type")) == "Dangling" {
			return textOf(memberAt(c, "status"))
		}
	}
	return "?"
}
