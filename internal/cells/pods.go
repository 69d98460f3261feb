package cells

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// podSummary is the summary that kube-apiserver's printer makes of a Pod's containers.
type podSummary struct {
	ready, total, restarts int64
	restarted              string // time of the last restart
	reason                 string
}

// restart counts a container's restarts.
func (p *podSummary) restart(container any) {
	p.restarts += NumberOf(MemberAt(container, "restartCount"))
	// the times have one format
	if finished := TextOf(MemberAt(container, "lastState.terminated.finishedAt")); finished > p.restarted {
		p.restarted = finished
	}
}

func summary(r *Row) *podSummary {
	p := &podSummary{total: int64(len(r.list("spec.containers"))),
		reason: orText(r.Text("status.reason"), r.Text("status.phase"))}
	sidecars := map[string]bool{} // init containers that always restart, and so run together with the others
	for _, name := range r.texts("spec.initContainers[restartPolicy=Always].name") {
		sidecars[name] = true
		p.total++
	}
	if r.has("status.conditions[type=PodScheduled,reason=SchedulingGated]") {
		p.reason = "SchedulingGated"
	}
	sidecarRuns := &podSummary{}
	initializing := p.initialize(r, sidecars, sidecarRuns)
	if !initializing || r.isCondition("Initialized") {
		p.restarts, p.restarted = sidecarRuns.restarts, sidecarRuns.restarted
		p.run(r)
	}
	switch phase := r.Text("status.phase"); {
	case r.deleted() && r.Text("status.reason") == "NodeLost":
		p.reason = "Unknown"
	case r.deleted() && phase != "Failed" && phase != "Succeeded":
		p.reason = "Terminating"
	}
	return p
}

// initialize finds the init container that has not ended with success, and reports whether there is one.
func (p *podSummary) initialize(r *Row, sidecars map[string]bool, sidecarRuns *podSummary) bool {
	for i, c := range r.list("status.initContainerStatuses") {
		sidecar := sidecars[TextOf(MemberAt(c, "name"))]
		if p.restart(c); sidecar {
			sidecarRuns.restart(c)
		}
		ended, waits := MemberAt(c, "state.terminated"), TextOf(MemberAt(c, "state.waiting.reason"))
		started, _ := MemberAt(c, "started").(bool)
		switch {
		case ended != nil && NumberOf(MemberAt(ended, "exitCode")) == 0:
			continue
		case sidecar && started:
			if ready, _ := MemberAt(c, "ready").(bool); ready {
				p.ready++
			}
			continue
		case ended != nil:
			p.reason = "Init:" + endReason(ended)
		case waits != "" && waits != "PodInitializing":
			p.reason = "Init:" + waits
		default:
			p.reason = fmt.Sprintf("Init:%d/%d", i, len(r.list("spec.initContainers")))
		}
		return true
	}
	return false
}

func endReason(ended any) string {
	if reason := TextOf(MemberAt(ended, "reason")); reason != "" {
		return reason
	}
	if signal := NumberOf(MemberAt(ended, "signal")); signal != 0 {
		return fmt.Sprintf("Signal:%d", signal)
	}
	return fmt.Sprintf("ExitCode:%d", NumberOf(MemberAt(ended, "exitCode")))
}

// run sets the reason and counts from the states of the containers.
func (p *podSummary) run(r *Row) {
	running, failed := false, ""
	for _, c := range slices.Backward(r.list("status.containerStatuses")) {
		p.restart(c)
		waits, ended := TextOf(MemberAt(c, "state.waiting.reason")), MemberAt(c, "state.terminated")
		ready, _ := MemberAt(c, "ready").(bool)
		switch {
		case waits != "":
			p.reason = waits
		case ended != nil:
			if p.reason = endReason(ended); NumberOf(MemberAt(ended, "exitCode")) != 0 {
				failed = p.reason
			}
		case ready && MemberAt(c, "state.running") != nil:
			running = true
			p.ready++
		}
	}
	if p.reason != "Completed" {
		return
	}
	switch {
	case running && r.isCondition("Ready"):
		p.reason = "Running"
	case failed != "":
		p.reason = failed
	case running:
		p.reason = "NotReady"
	}
}

func podReady(r *Row) any {
	p := summary(r)
	return fmt.Sprintf("%d/%d", p.ready, p.total)
}

func podStatus(r *Row) any { return summary(r).reason }

func podRestarts(r *Row) any {
	p := summary(r)
	if p.restarts == 0 || p.restarted == "" {
		return fmt.Sprint(p.restarts)
	}
	return fmt.Sprintf("%d (%s ago)", p.restarts, r.since(p.restarted, "<invalid>"))
}

func readinessGates(r *Row) any {
	gates, passed := r.texts("spec.readinessGates[*].conditionType"), 0
	if len(gates) == 0 {
		return "<none>"
	}
	for _, gate := range gates {
		if r.isCondition(gate) {
			passed++
		}
	}
	return fmt.Sprintf("%d/%d", passed, len(gates))
}

// metrics returns the targets of a HorizontalPodAutoscaler: the current and the wanted value of each.
func metrics(r *Row) any {
	specs, statuses := r.list("spec.metrics"), r.list("status.currentMetrics")
	var all []string
	for i, spec := range specs {
		kind := TextOf(MemberAt(spec, "type"))
		if kind == "" {
			continue
		}
		part := strings.ToLower(kind[:1]) + kind[1:]
		target, current := MemberAt(spec, part+".target"), any(nil)
		if i < len(statuses) {
			current = MemberAt(statuses[i], part+".current")
		}
		all = append(all, metric(kind, TextOf(MemberAt(spec, part+".name")), target, current))
	}
	switch {
	case len(specs) == 0:
		return "<none>"
	case len(all) > 2:
		return fmt.Sprintf("%s + %d more...", strings.Join(all[:2], ", "), len(all)-2)
	}
	return strings.Join(all, ", ")
}

func metric(kind, name string, target, current any) string {
	resource := kind == "Resource" || kind == "ContainerResource"
	now := func(member string) string {
		switch value := TextOf(MemberAt(current, member)); {
		case value != "":
			return value
		case current == nil:
			return "<unknown>"
		}
		return "<nil>"
	}
	average := TextOf(MemberAt(target, "averageValue"))
	switch {
	case resource && average != "":
		return fmt.Sprintf("%s: %s/%s", name, now("averageValue"), average)
	case resource:
		percent := func(v any, without string) string {
			if n, isNumber := MemberAt(v, "averageUtilization").(json.Number); isNumber {
				return n.String() + "%"
			}
			return without
		}
		return fmt.Sprintf("%s: %s/%s", name, percent(current, "<unknown>"), percent(target, "<auto>"))
	case kind == "Pods":
		return now("averageValue") + "/" + orText(average, "<nil>")
	case average != "":
		return orText(TextOf(MemberAt(current, "averageValue")), "<unknown>") + "/" + average + " (avg)"
	}
	return now("value") + "/" + orText(TextOf(MemberAt(target, "value")), "<nil>")
}
