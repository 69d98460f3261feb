package status

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"kubecdc/change"
	"kubecdc/export/live"
	"kubecdc/internal/dependency"
)

// One cause can affect many streams: if the API server is gone, each stream's request fails. So streams whose errors have one
// public form (fault.Public) are one problem. A server's own problem comes before the streams' problems with it.

// mostNames is how many streams a problem names.
const mostNames = 5

// addStreamProblems groups the streams' problems by cause. If a server's own problem has the same cause, the streams are added to
// it.
func (m *maker) addStreamProblems() {
	var groups byCause
	for i := range m.status.Streams {
		if s := &m.status.Streams[i]; s.Problem != "" {
			groups.add(Problem{Problem: s.wrong, Stream: s.id})
		}
	}
	for _, group := range groups {
		if server := m.serverWith(group.why()); server != nil {
			server.Count, server.Names = group.Count, group.Names
			continue
		}
		m.status.Problems = append(m.status.Problems, *group)
	}
}

// byCause is problems by component and cause. Several streams are one component.
type byCause []*Problem

func (all *byCause) add(p Problem) {
	if p.Stream != "" {
		p.Component = "stream " + Label(p.Stream)
	}
	group := &p
	if i := slices.IndexFunc(*all, func(q *Problem) bool {
		return q.why() == p.why() && (q.Component == p.Component || q.Count > 0 && p.Stream != "")
	}); i >= 0 {
		group = (*all)[i]
		group.Recovery = group.Recovery.Plus(p.Recovery)
	} else {
		group.streams = map[change.StreamID]bool{}
		*all = append(*all, group)
	}
	if p.Since.Before(group.Since) {
		group.Since = p.Since
	}
	if p.Until.After(group.Until) {
		group.Until = p.Until
	}
	if p.Stream == "" || group.streams[p.Stream] {
		return
	}
	group.streams[p.Stream] = true
	if group.Count++; group.Count <= mostNames {
		group.Names = append(group.Names, Label(p.Stream))
	}
	if group.Count > 1 {
		group.Component, group.Text, group.Stream = "streams", group.why(), ""
		if group.Recovery.Revisions > 0 {
			group.Text = group.Recovery.String()
		}
	}
}

// serverWith returns the server's own problem that has the cause, or nil.
func (m *maker) serverWith(why string) *Problem {
	for i := range m.status.Problems {
		if p := &m.status.Problems[i]; slices.Contains(dependency.All, p.Component) && strings.Contains(p.why(), why) {
			return p
		}
	}
	return nil
}

// sortProblems sorts servers first, then slots, then streams by their number. Pauses, which users have requested, come last.
func sortProblems(all []Problem) {
	rank := func(p Problem) int {
		switch {
		case slices.Contains(dependency.All, p.Component):
			return 0
		case p.Count == 0:
			return 1
		case p.Code == string(change.StatePaused):
			return 3
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Count, a.Count), a.Since.Compare(b.Since))
	})
}

// advice says what to do about a problem, and names the page about it.
type advice struct{ help, see string }

// These codes of problems (live.Problem.Code) are no states of streams.
const (
	incompleteGap = "gap"
	notConfirmed  = "not confirmed"
	withoutOwner  = "without owner"
	unrecorded    = "unrecorded" // the checkpoint does not say which streams a slot has
	spools        = "spools"
)

// advices is the advice by a problem's code, or else by its component, or by the HTTP status of the API server's answer.
var advices = map[string]advice{
	spools:        {"restore the sink: it gets what the spool has, in order", "docs/operations.md#spooling"},
	live.DiskFull: {"make room on the disk: it goes on by itself", "docs/operations.md#the-file"},

	string(change.StatePaused): {"exporter resume STREAM goes on", "docs/operations.md#asking-a-running-exporter"},
	live.Differs: {"exporter verify RESOURCE names the objects, --repair corrects them",
		"docs/monitoring.md#kubecdcprooffailed"},
	incompleteGap: {"the state of the objects is right; the gap record says what is missing",
		"docs/monitoring.md#kubecdcincompletegap"},
	notConfirmed: {"check the state of the streams and the speed of the sink",
		"docs/monitoring.md#kubecdcstreamnotconfirmed"},
	withoutOwner:                    {"read /readyz of the replicas", "docs/monitoring.md#kubecdcslotwithoutowner"},
	unrecorded:                      {"ask its owner (--url)", "docs/monitoring.md#what-counts-as-wrong"},
	string(change.StateUnsupported): {"leave the resource out of KUBECDC_RESOURCES", "docs/monitoring.md#kubecdcstreamrefused"},

	dependency.APIServer: {"check that the API server runs and can be reached from here; what changes meanwhile is read " +
		"afterwards", "docs/operations.md#the-cluster"},
	dependency.Sink:       {"exporter check tries each step of the sink, and says which fails", ""}, // Options.SinkPage
	dependency.Checkpoint: {"exporter check tries the checkpoint's database or file", "docs/operations.md#the-checkpoint"},
	"start": {"start or reach the server that is named; the exporter goes on by itself",
		"docs/operations.md#the-start"},
	live.Selection: {"repair the API server that is named, or leave it out of KUBECDC_RESOURCES; what is there is " +
		"exported meanwhile", "docs/monitoring.md#what-counts-as-wrong"},
	"slots": {"start an exporter", "docs/operations.md#the-start"},

	"403":    {"grant the rights that exporter rbac prints", "docs/security.md#kubernetes"},
	"401":    {"renew the credentials of the kubeconfig, or the Pod's ServiceAccount", "docs/operations.md#the-cluster"},
	anyOther: {"search for the message", "docs/operations.md#errors-from-a-to-z"},
}

const anyOther = "any other"

func (m *maker) advise(p *Problem) {
	for _, key := range []string{p.Code, p.Component, strconv.Itoa(int(p.Status)), anyOther} {
		if a, ok := advices[key]; ok {
			p.Help, p.See = a.help, cmp.Or(a.see, m.SinkPage)
			return
		}
	}
}

// mostPast is how many past problems are shown.
const mostPast = 5

// addPast groups past problems, the latest first.
func (m *maker) addPast(all []live.Past) {
	var groups byCause
	for _, p := range all {
		groups.add(Problem{Component: p.Component, Problem: m.hidden(p.Problem, p.Stream), Until: p.Until.UTC(),
			Stream: p.Stream})
	}
	slices.SortStableFunc(groups, func(a, b *Problem) int { return b.Until.Compare(a.Until) })
	for _, p := range groups[:min(len(groups), mostPast)] {
		m.status.Past = append(m.status.Past, *p)
	}
}
