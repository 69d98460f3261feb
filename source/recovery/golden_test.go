package recovery

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/datadriven"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
)

// write is one write of a history: of one key, or, where a lease expires, of several.
type write struct {
	revision uint64
	op       change.Op
	key      string
	same     bool // the object leaves the selection, or comes back: it keeps its uid
}

// server is a History of writes that counts the reads, and that compacts after some of them.
type server struct {
	writes    []write
	compacted uint64 // revisions before it can't be read
	then      uint64 // the same, after so many reads
	after     int
	uncounted bool // it tells no sizes
	tuning    *tuning

	mu                          sync.Mutex
	sizes, objects, names, full int // how often each was read
	onRead                      func()
}

// read counts a read, unless ctx has ended: then a client makes no request.
func (s *server) read(ctx context.Context, count *int, revision uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.onRead != nil {
		s.onRead()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	*count++
	if s.then > 0 && s.sizes+s.objects+s.names+s.full > s.after {
		s.compacted = s.then
	}
	if revision < s.compacted {
		return apierrors.NewResourceExpired("compacted")
	}
	return nil
}

// at returns the collection as it was: uid and version of each key.
func (s *server) objectsAt(revision uint64) map[string]known.Object {
	all, incarnations := map[string]known.Object{}, map[string]int{}
	for _, w := range s.writes {
		if w.revision > revision {
			break
		}
		switch w.op {
		case change.Create:
			if !w.same {
				incarnations[w.key]++
			}
			all[w.key] = known.Object{UID: fmt.Sprintf("%s#%d", w.key, incarnations[w.key]), Version: change.VersionOf(w.revision)}
		case change.Update:
			all[w.key] = known.Object{UID: all[w.key].UID, Version: change.VersionOf(w.revision)}
		case change.Delete:
			delete(all, w.key)
		}
	}
	return all
}

func object(key string, o known.Object) apiclient.Object {
	namespace, name := change.SplitKey(key)
	return apiclient.Object{Namespace: namespace, Name: name, UID: o.UID, Version: o.Version, Raw: []byte("{}")}
}

func (s *server) Size(ctx context.Context, revision uint64) (int64, error) {
	if err := s.read(ctx, &s.sizes, revision); err != nil {
		return 0, err
	}
	if s.uncounted {
		return 0, errNoSize
	}
	return int64(len(s.objectsAt(revision))), nil
}

func (s *server) Object(ctx context.Context, key string, revision uint64) (apiclient.Object, bool, error) {
	if err := s.read(ctx, &s.objects, revision); err != nil {
		return apiclient.Object{}, false, err
	}
	o, exists := s.objectsAt(revision)[key]
	return object(key, o), exists, nil
}

func (s *server) Names(ctx context.Context, namespace string, revision uint64, visit func(apiclient.Object) error) error {
	if err := s.read(ctx, &s.names, revision); err != nil {
		return err
	}
	for key, o := range s.objectsAt(revision) {
		if in, _ := change.SplitKey(key); namespace == "" || in == namespace {
			if err := visit(object(key, o)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *server) Objects(ctx context.Context, namespace string, revision, newerThan uint64, visit func(apiclient.Object) error) error {
	if err := s.read(ctx, &s.full, revision); err != nil {
		return err
	}
	after := change.VersionOf(newerThan)
	for key, o := range s.objectsAt(revision) {
		if in, _ := change.SplitKey(key); namespace != "" && in != namespace {
			continue
		}
		found := object(key, o)
		if o.Version.Compare(after) <= 0 {
			found.Raw = nil
		}
		if err := visit(found); err != nil {
			return err
		}
	}
	return nil
}

// gap lists the collection at a revision, as a reflector does, and compares it with what a log has that is complete up to
// another.
func (s *server) gap(from, to uint64) (*known.Set, Gap) {
	log, g := known.New(), Gap{From: from, To: to, Parallel: 1, ListedIn: map[string]int64{}, tuning: s.tuning}
	before, after := s.objectsAt(from), s.objectsAt(to)
	for key, o := range before {
		log.Put(key, o.UID, o.Version)
	}
	for key, o := range after {
		namespace, _ := change.SplitKey(key)
		g.Listed++
		g.ListedIn[namespace]++
		if before[key] != o {
			g.Changed = append(g.Changed, object(key, o))
		}
	}
	slices.SortFunc(g.Changed, func(x, y apiclient.Object) int { return cmp.Compare(x.Key(), y.Key()) })
	for key, o := range before {
		if after[key].UID != o.UID {
			g.Missing = append(g.Missing, key)
		}
	}
	slices.Sort(g.Missing)
	return log, g
}

var ops = map[string]change.Op{"create": change.Create, "update": change.Update, "delete": change.Delete}

// moves are the writes that move an object into the selection and out of it.
var moves = map[string]change.Op{"enter": change.Create, "leave": change.Delete}

// text describes a change as the scripts write it: 12 create a.
func text(revision uint64, op change.Op, key string) string {
	for name, o := range ops {
		if o == op {
			return fmt.Sprintf("%d %s %s", revision, name, key)
		}
	}
	return "?"
}

func parseWrites(t *testing.T, input string) (writes []write) {
	for _, line := range strings.Split(strings.TrimSpace(input), "\n") {
		f := strings.Fields(line)
		revision, err := strconv.ParseUint(f[0], 10, 64)
		op, same := moves[f[1]]
		if !same {
			op = ops[f[1]]
		}
		if err != nil || len(f) < 3 || op == 0 {
			t.Fatalf("%q is not a write: REVISION create|update|delete|enter|leave KEY…", line)
		}
		for _, key := range f[2:] {
			writes = append(writes, write{revision, op, key, same})
		}
	}
	return writes
}

// The scripts in testdata have a history of writes, and what is recovered of a gap in it. After a change of behaviour:
// go test ./source/recovery -run TestScripts -rewrite
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s := &server{writes: parseWrites(t, d.Input), uncounted: d.HasArg("uncounted"), tuning: asInProduction()}
			var from, to uint64
			d.ScanArgs(t, "from", &from)
			d.ScanArgs(t, "to", &to)
			if d.Cmd == "together" {
				return recoverTogether(t, s.writes, from, to)
			}
			if d.HasArg("past-lists") {
				s.tuning = pastListsCost(0, 0)
			}
			if d.HasArg("dear-sizes") {
				s.tuning.costs = costs{read: 1, size: 20, named: 100, bodied: 100}
			}
			d.MaybeScanArgs(t, "compacted", &s.compacted)
			if d.HasArg("compacts") { // (revision,reads before)
				d.ScanArgs(t, "compacts", &s.then, &s.after)
			}
			log, g := s.gap(from, to)
			g.Kind.Several, g.Kind.Aggregated, g.Kind.Selected = d.HasArg("leased"), d.HasArg("aggregated"), d.HasArg("selected")
			plan, incomplete, err := Recover(t.Context(), s, log, g)
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			return describe(plan, incomplete) + s.reads()
		})
	})
}

// pastListsCost is a tuning by how many reads a past list must save, and what an object in it costs, in reads.
func pastListsCost(reads, object float64) *tuning {
	t := asInProduction()
	t.worthwhile, t.costs = reads, costs{read: 1, size: 1, named: object, bodied: object}
	return t
}

// asInProduction is the tuning of a history in memory, which takes no time: nothing is measured.
func asInProduction() *tuning {
	t := production
	t.given = true
	return &t
}

// reads says how often each was read.
func (s *server) reads() string {
	return fmt.Sprintf("reads: %d of sizes, %d of objects, %d of names, %d past lists\n", s.sizes, s.objects, s.names, s.full)
}

// recoverTogether recovers the streams of one etcd, in the order in which they go. The key's first part is the resource.
func recoverTogether(t *testing.T, writes []write, from, to uint64) string {
	c, servers := NewCoordinator(slog.New(slog.DiscardHandler)), map[string]*server{}
	for _, w := range writes {
		resource, _ := change.SplitKey(w.key)
		if servers[resource] == nil {
			servers[resource] = &server{tuning: asInProduction()}
		}
		servers[resource].writes = append(servers[resource].writes, w)
	}
	var peers []*peer
	for name, s := range servers {
		p := newPeer(c, s, name, "", name == "events", true)
		peers = append(peers, p)
	}
	changed := func(p *peer) int { return len(p.writesBetween(from, to)) }
	slices.SortFunc(peers, func(x, y *peer) int { return cmp.Or(changed(y)-changed(x), strings.Compare(x.name, y.name)) })
	newPeer(c, &server{}, "another", "", false, false).participant.Begin() // so that all are of one round
	var b strings.Builder
	for _, p := range peers {
		b.WriteString(p.name + ":\n")
		if err := p.recover(t.Context(), from, to, true); err != nil {
			b.WriteString(err.Error() + "\n")
		}
		for _, line := range p.writesBetween(from, to) {
			b.WriteString("  " + line + "\n")
		}
		b.WriteString("  " + p.reads())
	}
	return b.String()
}

func describe(plan Plan, incomplete string) string {
	var b strings.Builder
	for _, c := range plan {
		b.WriteString(text(c.Version, c.Op, c.Key))
		if c.Inferred {
			b.WriteString(", inferred")
		}
		b.WriteString("\n")
	}
	if incomplete == "" {
		incomplete = "nothing"
	}
	b.WriteString("incomplete: " + incomplete + "\n")
	return b.String()
}

func randomGap(random *rand.Rand, s *server, from, to uint64) (*known.Set, Gap) {
	log, g := s.gap(from, to)
	if random.IntN(2) == 0 { // lists of a namespace are cheap, so they are read
		clear(g.ListedIn)
		g.ListedIn["ns-0"], g.ListedIn["ns-1"] = 0, 0
	}
	g.Namespaced, g.Parallel, g.Kind.Aggregated, g.Kind.Several = random.IntN(2) == 0, 1+random.IntN(3), random.IntN(4) == 0, random.IntN(4) == 0
	return log, g
}

// changesOf describes the changes of a plan.
func changesOf(p Plan) (all []string) {
	for _, c := range p {
		all = append(all, text(c.Version, c.Op, c.Key))
	}
	slices.Sort(all)
	return all
}

// between returns what happened after one revision and up to another.
func (s *server) writesBetween(from, to uint64) (all []string) {
	for _, w := range s.writes {
		if w.revision > from && w.revision <= to {
			all = append(all, text(w.revision, w.op, w.key))
		}
	}
	slices.Sort(all)
	return all
}
