package serve

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
	p.restarts += numberOf(memberAt(container, "restartCount"))
	if finished := textOf(memberAt(container, "lastState.terminated.finishedAt")); finished > p.restarted { // the times have one format
		p.restarted = finished
	}
}

func summary(r *row) *podSummary {
	p := &podSummary{total: int64(len(r.list("spec.containers"))), reason: orText(r.text("status.reason"), r.text("status.phase"))}
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
	switch phase := r.text("status.phase"); {
	case r.deleted() && r.text("status.reason") == "NodeLost":
		p.reason = "Unknown"
	case r.deleted() && phase != "Failed" && phase != "Succeeded":
		p.reason = "Terminating"
	}
	return p
}

// initialize finds the init container that has not ended with success, and reports whether there is one.
func (p *podSummary) initialize(r *row, sidecars map[string]bool, sidecarRuns *podSummary) bool {
	for i, c := range r.list("status.initContainerStatuses") {
		sidecar := sidecars[textOf(memberAt(c, "name"))]
		if p.restart(c); sidecar {
			sidecarRuns.restart(c)
		}
		ended, waits := memberAt(c, "state.terminated"), textOf(memberAt(c, "state.waiting.reason"))
		started, _ := memberAt(c, "started").(bool)
		switch {
		case ended != nil && numberOf(memberAt(ended, "exitCode")) == 0:
			continue
		case sidecar && started:
			if ready, _ := memberAt(c, "ready").(bool); ready {
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
	if reason := textOf(memberAt(ended, "reason")); reason != "" {
		return reason
	}
	if signal := numberOf(memberAt(ended, "signal")); signal != 0 {
		return fmt.Sprintf("Signal:%d", signal)
	}
	return fmt.Sprintf("ExitCode:%d", numberOf(memberAt(ended, "exitCode")))
}

// run sets the reason and counts from the states of the containers.
func (p *podSummary) run(r *row) {
	running, failed := false, ""
	for _, c := range slices.Backward(r.list("status.containerStatuses")) {
		p.restart(c)
		waits, ended := textOf(memberAt(c, "state.waiting.reason")), memberAt(c, "state.terminated")
		ready, _ := memberAt(c, "ready").(bool)
		switch {
		case waits != "":
			p.reason = waits
		case ended != nil:
			if p.reason = endReason(ended); numberOf(memberAt(ended, "exitCode")) != 0 {
				failed = p.reason
			}
		case ready && memberAt(c, "state.running") != nil:
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

func podReady(r *row) any {
	p := summary(r)
	return fmt.Sprintf("%d/%d", p.ready, p.total)
}

func podStatus(r *row) any { return summary(r).reason }

func podRestarts(r *row) any {
	p := summary(r)
	if p.restarts == 0 || p.restarted == "" {
		return fmt.Sprint(p.restarts)
	}
	return fmt.Sprintf("%d (%s ago)", p.restarts, r.since(p.restarted, "<invalid>"))
}

func readinessGates(r *row) any {
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
func metrics(r *row) any {
	specs, statuses := r.list("spec.metrics"), r.list("status.currentMetrics")
	var all []string
	for i, spec := range specs {
		kind := textOf(memberAt(spec, "type"))
		if kind == "" {
			continue
		}
		part := strings.ToLower(kind[:1]) + kind[1:]
		target, current := memberAt(spec, part+".target"), any(nil)
		if i < len(statuses) {
			current = memberAt(statuses[i], part+".current")
		}
		all = append(all, metric(kind, textOf(memberAt(spec, part+".name")), target, current))
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
		switch value := textOf(memberAt(current, member)); {
		case value != "":
			return value
		case current == nil:
			return "<unknown>"
		}
		return "<nil>"
	}
	average := textOf(memberAt(target, "averageValue"))
	switch {
	case resource && average != "":
		return fmt.Sprintf("%s: %s/%s", name, now("averageValue"), average)
	case resource:
		percent := func(v any, without string) string {
			if n, isNumber := memberAt(v, "averageUtilization").(json.Number); isNumber {
				return n.String() + "%"
			}
			return without
		}
		return fmt.Sprintf("%s: %s/%s", name, percent(current, "<unknown>"), percent(target, "<auto>"))
	case kind == "Pods":
		return now("averageValue") + "/" + orText(average, "<nil>")
	case average != "":
		return orText(textOf(memberAt(current, "averageValue")), "<unknown>") + "/" + average + " (avg)"
	}
	return now("value") + "/" + orText(textOf(memberAt(target, "value")), "<nil>")
}
