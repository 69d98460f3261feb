package status

import (
	"cmp"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"kubecdc/change"
	"kubecdc/export/live"
	"kubecdc/internal/dependency"
)

// One cause can affect many streams: if the API server is gone, each stream's request fails. So streams whose errors differ only
// in the request are one problem. A server's own problem comes before the streams' problems with it.

// requestPart matches the parts of an error that describe the request, not the cause: the URL, the local end of the connection,
// the object.
var requestPart = regexp.MustCompile(`^(?:list|watch) \S+: |(?:Get|Post|Put|Delete) "[^"]*": |\S+:\d+->|[^\s:]+ is forbidden: | resource "[^"]*" in API group "[^"]*"` +
	`| in the namespace "[^"]*"|resourceVersions? \d+(?: and \d+)?|signal \d+|^\d+ of its`)

// recoveryPart matches the progress of a recovery.
var recoveryPart = regexp.MustCompile(`: (\d+) of (\d+) revisions accounted for, (\d+) requests`)

// progress is the sum of the progress of several recoveries.
type progress [3]int

func (p *progress) add(text string) {
	for i, number := range recoveryPart.FindStringSubmatch(text) {
		if n, err := strconv.Atoi(number); err == nil && i > 0 {
			p[i-1] += n
		}
	}
}

func (p *progress) String() string {
	if p[1] == 0 {
		return ""
	}
	return fmt.Sprintf(": %d of %d revisions accounted for, %d requests", p[0], p[1], p[2])
}

// cause returns an error without its request, and without the progress of a recovery.
func cause(text string) string {
	text = recoveryPart.ReplaceAllString(text, "")
	return strings.Join(strings.Fields(requestPart.ReplaceAllStringFunc(text, func(match string) string {
		switch {
		case strings.HasSuffix(match, " is forbidden: "):
			return "forbidden: "
		case strings.HasPrefix(match, "resourceVersion"):
			return "its resourceVersion"
		case strings.HasPrefix(match, "signal"):
			return "a signal"
		case strings.HasSuffix(match, "of its"):
			return "some of its"
		}
		return " "
	})), " ")
}

// mostNames is how many streams a problem names.
const mostNames = 5

// addStreamProblems groups the streams' problems by cause. If a server's own problem has the same cause, the streams are added to
// it.
func (m *maker) addStreamProblems() {
	var groups byCause
	for i := range m.status.Streams {
		if s := &m.status.Streams[i]; s.Problem != "" {
			groups.add(s.id, s.Problem, s.Since)
		}
	}
	for why, group := range groups.all() {
		if server := m.serverWith(why); server != nil {
			server.Count, server.Names = group.Count, group.Names
			continue
		}
		m.status.Problems = append(m.status.Problems, *group)
	}
}

// byCause is the problems of streams by cause.
type byCause struct {
	groups map[string]*Problem
	order  []string
}

func (b *byCause) add(id change.StreamID, text string, since time.Time) {
	why := cause(text)
	p := b.groups[why]
	if p == nil {
		if b.groups == nil {
			b.groups = map[string]*Problem{}
		}
		p = &Problem{Component: "stream " + Label(id), Text: text, Since: since, Stream: id}
		b.groups[why], b.order = p, append(b.order, why)
	}
	p.recovery.add(text)
	if p.Count++; p.Count <= mostNames {
		p.Names = append(p.Names, Label(id))
	}
	if since.Before(p.Since) {
		p.Since = since
	}
}

// all returns the groups by cause, in the order of their first streams.
func (b *byCause) all() iter.Seq2[string, *Problem] {
	return func(yield func(string, *Problem) bool) {
		for _, why := range b.order {
			p := b.groups[why]
			if p.Count > 1 {
				p.Component, p.Text, p.Stream = "streams", why+p.recovery.String(), ""
			}
			if !yield(why, p) {
				return
			}
		}
	}
}

// serverWith returns the server's own problem that has the cause, or nil.
func (m *maker) serverWith(why string) *Problem {
	for i := range m.status.Problems {
		if p := &m.status.Problems[i]; slices.Contains(dependency.All, p.Component) && strings.Contains(cause(p.Text), why) {
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
		case strings.HasPrefix(p.Text, pausedBy):
			return 3
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Count, a.Count), a.Since.Compare(b.Since))
	})
}

// advice is what to do about a problem, and the page about it.
type advice struct{ help, see string }

// byComponent is the advice for servers and steps.
var byComponent = map[string]advice{
	dependency.APIServer:  {"check that the API server runs and can be reached from here; what changes meanwhile is read afterwards", "docs/operations.md#the-cluster"},
	dependency.Sink:       {"exporter check tries each step of the sink, and says which fails", "docs/operations.md#kafka"},
	dependency.Checkpoint: {"exporter check tries the checkpoint's database or file", "docs/operations.md#the-checkpoint"},
	"start":               {"start or reach the server that is named; the exporter goes on by itself", "docs/operations.md#the-start"},
	"selection":           {"repair the API server that is named, or leave it out of KUBECDC_RESOURCES; what is there is exported meanwhile", "docs/monitoring.md#what-counts-as-wrong"},
	"slots":               {"start an exporter", "docs/operations.md#the-start"},
}

// textAdvice is the advice for problems with a part in their text.
type textAdvice struct {
	part string
	advice
}

// first is the advice for problems that may be a server's, too.
var first = []textAdvice{
	{"spooling, ", advice{"restore the sink: it gets what the spool has, in order", "docs/operations.md#spooling"}},
	{"the disk is full", advice{"make room on the disk: it goes on by itself", "docs/operations.md#the-file"}},
}

// byText is the advice for problems of streams and slots.
var byText = []textAdvice{
	{pausedBy, advice{"exporter resume STREAM goes on", "docs/operations.md#asking-a-running-exporter"}},
	{"forbidden", advice{"grant the rights that exporter rbac prints", "docs/security.md#kubernetes"}},
	{"nauthorized", advice{"renew the credentials of the kubeconfig, or the Pod's ServiceAccount", "docs/operations.md#the-cluster"}},
	{"differ from the API server's", advice{"exporter verify RESOURCE names the objects, --repair corrects them", "docs/monitoring.md#kubecdcprooffailed"}},
	{"changes may be missing", advice{"the state of the objects is right; the gap record says what is missing", "docs/monitoring.md#kubecdcincompletegap"}},
	{"not confirmed to be complete", advice{"check the state of the streams and the speed of the sink", "docs/monitoring.md#kubecdcstreamnotconfirmed"}},
	{"nobody owns it", advice{"read /readyz of the replicas", "docs/monitoring.md#kubecdcslotwithoutowner"}},
	{unrecorded, advice{"ask its owner (--url)", "docs/monitoring.md#what-counts-as-wrong"}},
	{"can't be exported", advice{"leave the resource out of KUBECDC_RESOURCES", "docs/monitoring.md#kubecdcstreamrefused"}},
	{"the sink refuses", advice{"create the topic or grant the right that is named", "docs/monitoring.md#kubecdcstreamrefused"}},
}

func (p *Problem) advise() {
	for _, a := range first {
		if strings.Contains(p.Text, a.part) {
			p.Help, p.See = a.help, a.see
			return
		}
	}
	if a, ok := byComponent[p.Component]; ok {
		p.Help, p.See = a.help, a.see
		return
	}
	for _, a := range byText {
		if strings.Contains(p.Text, a.part) {
			p.Help, p.See = a.help, a.see
			return
		}
	}
	p.Help, p.See = "search for the message", "docs/operations.md#errors-from-a-to-z"
}

// unrecorded begins the problem of a slot whose streams are not recorded.
const unrecorded = "the checkpoint does not say which streams it has"

// pausedBy begins the problem of a stream that a user has paused.
const pausedBy = "paused by signal"

// mostPast is how many past problems are shown.
const mostPast = 5

// Past is a problem that has ended.
type Past struct {
	Component string    `json:"component"`
	Text      string    `json:"problem"`
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until"`
	Count     int       `json:"streams,omitempty"` // number of streams with the problem

	stream change.StreamID
}

// addPast groups past problems by cause, the latest first.
func (m *maker) addPast(all []live.Past) {
	groups := map[string]*Past{}
	for _, gone := range all {
		p := Past{Component: gone.Component, Text: m.hide(gone.Text, gone.Stream), Since: gone.Since, Until: gone.Until, stream: gone.Stream}
		if p.stream != "" {
			p.Component, p.Count = "stream "+Label(p.stream), 1
		}
		key := p.Component
		if p.stream != "" {
			key = "stream"
		}
		key += cause(p.Text)
		if g := groups[key]; g == nil {
			groups[key] = &p
		} else {
			g.join(p)
		}
	}
	for _, g := range groups {
		m.status.Past = append(m.status.Past, *g)
	}
	slices.SortFunc(m.status.Past, func(a, b Past) int { return cmp.Or(b.Until.Compare(a.Until), cmp.Compare(a.Component, b.Component)) })
	m.status.Past = m.status.Past[:min(len(m.status.Past), mostPast)]
}

func (p *Past) join(other Past) {
	if p.stream != "" && p.stream != other.stream {
		p.Component, p.Text = "streams", cause(p.Text)
		p.Count++
	}
	if other.Since.Before(p.Since) {
		p.Since = other.Since
	}
	if other.Until.After(p.Until) {
		p.Until = other.Until
	}
}
