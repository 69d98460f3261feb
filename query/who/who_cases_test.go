package who_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"kubecdc/audit"
	"kubecdc/change"
	"kubecdc/query/timeline"
	"kubecdc/query/who"
	"kubecdc/sinks"
)

// audited is a cluster with one pod, people who write it, and a log. The log may lack the first part of a gap, and updates that
// it ignores. Webhooks fail. Finalizers delay deletions. Audit events have versions by the policy, or by responses, or none.
type audited struct {
	*rand.Rand
	events  string // policy, response, none
	log     *auditedLog
	version int
	now     time.Time
	body    string // more of the object's metadata, or a dash if there is none
	uid     int
	asked   string // who requested the deletion that has begun
	history []made
	owners  []owner
}

// owner is an owner of the slot, of a part of the history.
type owner struct{ ignores, says bool }

// epochAt returns the number of the owner that read a revision.
func (a *audited) epochAt(i int) int { return i * len(a.owners) / len(a.history) }

// controls are the batch records, and the settings as far as the owners say them.
func (a *audited) controls() {
	for i, h := range a.history {
		epoch := a.epochAt(i)
		o := a.owners[epoch]
		if o.says && (i == 0 || a.epochAt(i-1) != epoch) {
			said := change.SettingsControl(nil)
			if o.ignores {
				said.Ignores = []string{"pods"}
			}
			said.Epoch, said.TimeMs = int64(epoch), h.seen.UnixMilli()
			a.log.controls = append(a.log.controls, &said)
		}
		a.log.controls = append(a.log.controls, &change.Control{Type: change.ControlBatch, Epoch: int64(epoch), TimeMs: h.seen.UnixMilli()})
	}
}

// made is a revision of the pod, and who made it.
type made struct {
	op             change.Op
	user           string
	asked          string // who requested the deletion, if that was another request
	version        int
	after          []byte
	uid            string
	happened, seen time.Time
	gap            string
	epoch          int
	skips          bool // the log lacks what was right before it
	quiet          bool // an update that changes no managedFields
}

var people = []string{"alice", "bob", "carol"}

func (a *audited) request(verb, user string, before int, more func(*audit.Record)) {
	r := request(user, verb, func(r *audit.Record) {
		r.ID, r.AuditID = fmt.Sprint(len(a.log.records)), fmt.Sprint(user, a.version)
		r.Time, r.Answered, r.Received, r.UID = a.now.Add(-20*time.Millisecond), a.now, a.now, fmt.Sprint("u", a.uid)
		r.VersionBefore, r.Effect, r.Manager = change.VersionOf(uint64(before)), audit.Wrote, user
		if verb == "create" {
			r.VersionBefore, r.Created, r.Effect = "", true, ""
		}
		if a.events != "policy" {
			r.Effect, r.VersionBefore, r.UID = "", "", ""
			if a.events == "response" {
				r.UID, r.VersionAfter = fmt.Sprint("u", a.uid), change.VersionOf(uint64(a.version))
			}
			if verb == "delete" {
				r.VersionAfter = ""
			}
		}
	})
	if more != nil {
		more(&r)
	}
	a.log.records = append(a.log.records, r)
}

func (a *audited) image() []byte {
	if a.body == "-" {
		return nil
	}
	return podBody(a.version, a.body)
}

// step makes a revision.
func (a *audited) step() {
	a.now = a.now.Add(time.Duration(1+a.IntN(8000)) * time.Millisecond)
	user, before, was := people[a.IntN(len(people))], a.version, a.image()
	m := made{user: user, op: change.Update, happened: a.now, seen: a.now.Add(30 * time.Millisecond)}
	isEnding := strings.Contains(a.body, "deletionTimestamp")
	if a.IntN(4) == 0 && was != nil { // its webhook fails
		a.request("patch", people[a.IntN(len(people))], before, func(r *audit.Record) { r.Code, r.VersionAfter = 500, "" })
	}
	a.version += 1 + a.IntN(3)
	switch n := a.IntN(6); {
	case was == nil:
		a.uid++
		m.op, a.body = change.Create, ""
		if a.IntN(2) == 0 {
			a.body = finalizing
		}
		a.request("create", user, 0, nil)
	case isEnding: // the last finalizer is removed: the answer has the version before
		a.body, m.op, m.asked = "-", change.Delete, a.asked
		a.request("update", user, before, func(r *audit.Record) {
			if a.events == "response" {
				r.VersionBefore, r.VersionAfter = change.VersionOf(uint64(before)), change.VersionOf(uint64(before))
			}
		})
	case n == 0 && strings.Contains(a.body, "finalizers"):
		a.body, a.asked = ending+a.body, user
		a.request("delete", user, before, nil)
	case n == 0:
		a.body, m.op = "-", change.Delete
		a.request("delete", user, before, nil)
	default:
		m.quiet = a.IntN(4) == 0
		a.request("patch", user, before, nil)
	}
	m.uid, m.version, m.after = fmt.Sprint("u", a.uid), a.version, a.image()
	a.history = append(a.history, m)
}

// logged is what the log has of the history: gaps lack their first revisions, ignored updates are left out.
func (a *audited) logged() (all []made) {
	var last *made
	for i := range a.history {
		a.history[i].epoch = a.epochAt(i)
	}
	for i := 0; i < len(a.history); i++ {
		m, ignores := a.history[i], a.owners[a.epochAt(i)].ignores
		if last != nil && m.op == change.Update && i > 0 {
			m.skips = a.history[i-1].version != last.version
		}
		switch {
		case ignores && m.op == change.Update && a.IntN(2) == 0:
			continue
		case !ignores && a.IntN(5) == 0 && i+3 < len(a.history) && a.epochAt(i+3) == m.epoch && m.op == change.Update: // a gap whose first revisions are compacted
			id := fmt.Sprint("gap", i)
			seen, first := a.history[i+3].seen.Add(time.Minute), i+1+a.IntN(2)
			complete := a.IntN(3) == 0
			if complete {
				first = i
			}
			c := change.GapControl("pods", "9", change.Gap{ID: id, From: "1", To: "9", Complete: complete}, "")
			a.log.controls = append(a.log.controls, &c)
			for j := first; j <= i+3; j++ {
				g := a.history[j]
				if last != nil && g.uid != last.uid && g.op != change.Create || last == nil { // its creation is unknown
					continue
				}
				g.gap, g.seen, g.skips = id, seen, a.history[j-1].version != last.version
				all, last = append(all, g), &a.history[j]
			}
			i += 3
			continue
		}
		if last != nil && last.uid != m.uid && m.op != change.Create {
			continue
		}
		all, last = append(all, m), &a.history[i]
	}
	return all
}

// provenance is what managedFields tell of a change after a version. It may stand for several.
func (a *audited) provenance(m *made, since int) (p change.Provenance) {
	var managers []string
	for _, h := range a.history {
		if h.uid == m.uid && h.version <= m.version && h.version > since && h.op == change.Update && !h.quiet {
			managers = append(managers, h.user)
			p.Time, p.Source = h.happened.Truncate(time.Second), change.FromManagedFields
		}
	}
	p.Managers = []byte(strings.Join(managers, ","))
	return p
}

// candidates returns who can be right: who made a revision that the log left out before it, too.
func (a *audited) candidates(m *made, since int) (names []string) {
	for _, h := range a.history {
		if h.uid == m.uid && h.version <= m.version && h.version > since {
			names = append(names, h.user)
		}
	}
	return names
}

// judge judges the answer about a change after a version, and that of somebody who does not have the setting.
func (a *audited) judge(t *testing.T, name string, m *made, since int, w, blind *who.Who) {
	t.Helper()
	mayBe := a.candidates(m, since)
	certain := m.op == change.Create || a.owners[m.epoch].says && len(mayBe) == 1
	if blind.Grade == who.Exact && (blind.User != m.user || !certain && m.gap == "") {
		t.Errorf("without the setting: %s %s; %s", blind.Grade, blind.Text(nil), name)
	}
	switch w.Grade {
	case who.Exact:
		if w.User != m.user || !certain && m.gap == "" {
			t.Error(name)
		}
	case who.Probable:
		if !slices.Contains(mayBe, w.User) || w.User != m.user {
			t.Error(name)
		}
	case who.OneOf:
		if !slices.Contains(w.Users, m.user) {
			t.Error(name)
		}
	default:
		t.Error(name)
	}
}

// Who made a change is right if it is exact. If it is one of several, the right one is among them. If all events have versions
// and the log all revisions, it is exact.
func TestWhoIsRight(t *testing.T) {
	tally := map[string]int{}
	for seed := range uint64(600) {
		for _, events := range []string{"policy", "response", "none"} {
			a := &audited{Rand: rand.New(rand.NewPCG(seed, 58)), events: events, log: &auditedLog{}, version: 5, now: began, body: "-"}
			for range 40 {
				if a.step(); a.IntN(12) == 0 {
					a.now = a.now.Add(5 * time.Minute)
				}
			}
			ignores := false
			for range 1 + a.IntN(3) { // restarts, upgrades
				o := owner{a.IntN(3) == 0, a.IntN(4) > 0}
				a.owners, ignores = append(a.owners, o), ignores || o.ignores
			}
			pruned := len(a.owners) > 1 && a.IntN(3) == 0 // the first owner's records have expired
			a.owners[0].says = a.owners[0].says && !pruned
			a.controls()
			if pruned {
				a.log.controls = slices.DeleteFunc(a.log.controls, func(c *change.Control) bool { return c.Epoch == 0 })
			}
			all := a.logged()
			q, err := who.ReadRequests(t.Context(), a.log, &sinks.Objects{}, time.Time{})
			must(t, err)
			late, err := timeline.LateSince(t.Context(), a.log, time.Time{})
			must(t, err)
			q.Skips, q.Ignores = late.Skips, func(resource string, since time.Time, l *sinks.Logged) (bool, bool) {
				may, known := late.Ignores(resource, since, l)
				return may || !known && ignores, known
			}
			unset, err := who.ReadRequests(t.Context(), a.log, &sinks.Objects{}, time.Time{}) // by somebody without the setting
			must(t, err)
			unset.Skips, unset.Ignores = late.Skips, late.Ignores
			var before *made
			for i := range all {
				m := &all[i]
				l := &sinks.Logged{Change: change.Change{Stream: change.ParseStream("pods"), Op: m.op, Namespace: "shop", Name: "a", UID: m.uid,
					ResourceVersion: change.VersionOf(uint64(m.version)), After: m.after, Time: m.seen, Gap: m.gap},
					Epoch: int64(m.epoch), Logged: m.seen}
				if before != nil && before.uid == m.uid {
					l.Before = before.after
				}
				since := 0
				if before != nil && before.uid == m.uid {
					since = before.version
				}
				switch m.op {
				case change.Create:
					l.Provenance = change.Provenance{Time: m.happened.Truncate(time.Second), Source: change.FromCreationTimestamp}
				case change.Update:
					l.Provenance = a.provenance(m, since)
				}
				if m.op != change.Create && l.Before == nil {
					before = m
					continue
				}
				w, blind := q.Who(l), unset.Who(l)
				tally[fmt.Sprint(events, " ", w.Grade)]++
				name := fmt.Sprintf("gap %s skips %t seed %d, events %s, owners %v, %d: %s at %d by %s is %s %s", m.gap, m.skips, seed, events, a.owners, m.epoch, m.op, m.version, m.user, w.Grade, w.Text(nil))
				if events == "policy" && m.asked != "" && m.asked != m.user && w.Grade == who.Exact && m.gap == "" && !ignores && !w.Is(m.asked) {
					t.Errorf("%s, and %s asked for it", name, m.asked)
				}
				a.judge(t, name, m, since, w, blind)
				before = m
			}
		}
	}
	t.Log(tally)
}
