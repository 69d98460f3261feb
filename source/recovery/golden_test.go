package recovery

import (
	"cmp"
	"context"
	"fmt"
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
}

// server is a History of writes that counts the reads, and that compacts after some of them.
type server struct {
	writes    []write
	compacted uint64 // revisions before it can't be read
	then      uint64 // the same, after so many reads
	after     int
	uncounted bool // it tells no sizes

	mu                    sync.Mutex
	sizes, objects, names int // how often each was read
}

// read counts a read, unless ctx has ended: then a client makes no request.
func (s *server) read(ctx context.Context, count *int, revision uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	*count++
	if s.then > 0 && s.sizes+s.objects+s.names > s.after {
		s.compacted = s.then
	}
	if revision < s.compacted {
		return apierrors.NewResourceExpired("compacted")
	}
	return nil
}

// at returns the collection as it was: uid and version of each key.
func (s *server) at(revision uint64) map[string]known.Object {
	all, incarnations := map[string]known.Object{}, map[string]int{}
	for _, w := range s.writes {
		if w.revision > revision {
			break
		}
		switch w.op {
		case change.Create:
			incarnations[w.key]++
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

func (s *server) Size(ctx context.Context, namespace string, revision uint64) (n int64, err error) {
	if err := s.read(ctx, &s.sizes, revision); err != nil {
		return 0, err
	}
	if s.uncounted {
		return 0, errNoSize
	}
	for key := range s.at(revision) {
		if in, _ := change.SplitKey(key); namespace == "" || in == namespace {
			n++
		}
	}
	return n, nil
}

func (s *server) Object(ctx context.Context, key string, revision uint64) (apiclient.Object, bool, error) {
	if err := s.read(ctx, &s.objects, revision); err != nil {
		return apiclient.Object{}, false, err
	}
	o, exists := s.at(revision)[key]
	return object(key, o), exists, nil
}

func (s *server) Names(ctx context.Context, namespace string, revision uint64, visit func(apiclient.Object) error) error {
	if err := s.read(ctx, &s.names, revision); err != nil {
		return err
	}
	for key, o := range s.at(revision) {
		if in, _ := change.SplitKey(key); namespace == "" || in == namespace {
			if err := visit(object(key, o)); err != nil {
				return err
			}
		}
	}
	return nil
}

// gap lists the collection at a revision, as a reflector does, and compares it with what a log has that is complete up to
// another.
func (s *server) gap(from, to uint64) (*known.Set, Gap) {
	log, g := known.New(), Gap{From: from, To: to, Parallel: 1}
	before, after := s.at(from), s.at(to)
	for key, o := range before {
		log.Put(key, o.UID, o.Version)
	}
	for key, o := range after {
		g.Listed++
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
		if err != nil || len(f) < 3 || ops[f[1]] == 0 {
			t.Fatalf("%q is not a write: REVISION create|update|delete KEY…", line)
		}
		for _, key := range f[2:] {
			writes = append(writes, write{revision, ops[f[1]], key})
		}
	}
	return writes
}

// The scripts in testdata have a history of writes, and what is recovered of a gap in it. After a change of behaviour:
// go test ./source/recovery -run TestScripts -rewrite
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s := &server{writes: parseWrites(t, d.Input), uncounted: d.HasArg("uncounted")}
			var from, to uint64
			d.ScanArgs(t, "from", &from)
			d.ScanArgs(t, "to", &to)
			d.MaybeScanArgs(t, "compacted", &s.compacted)
			if d.HasArg("compacts") { // (revision,reads before)
				d.ScanArgs(t, "compacts", &s.then, &s.after)
			}
			log, g := s.gap(from, to)
			g.Leased, g.Aggregated = d.HasArg("leased"), d.HasArg("aggregated")
			plan, incomplete, err := Recover(t.Context(), s, log, g)
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			return describe(plan, incomplete) + fmt.Sprintf("reads: %d of sizes, %d of objects, %d of names\n", s.sizes, s.objects, s.names)
		})
	})
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

// Whatever happened in a gap, the plan is just that.
func TestRandomHistoriesAreRecoveredWhole(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		s, want := &server{}, []string{}
		from, to := uint64(5+random.IntN(20)), uint64(30+random.IntN(40))
		for revision := uint64(1); revision <= to; revision++ {
			key := fmt.Sprintf("ns-%d/%c", random.IntN(2), 'a'+rune(random.IntN(4)))
			op := change.Create
			if _, exists := s.at(revision)[key]; exists {
				op = []change.Op{change.Update, change.Delete}[random.IntN(2)]
			}
			if random.IntN(5) == 0 {
				continue // another resource's revision
			}
			s.writes = append(s.writes, write{revision, op, key})
			if revision > from {
				want = append(want, text(revision, op, key))
			}
		}
		log, g := s.gap(from, to)
		g.Namespaced, g.Parallel, g.Aggregated, g.Leased = random.IntN(2) == 0, 1+random.IntN(3), random.IntN(4) == 0, random.IntN(4) == 0
		plan, incomplete, err := Recover(t.Context(), s, log, g)
		got := []string{}
		for _, c := range plan {
			got = append(got, text(c.Version, c.Op, c.Key))
		}
		if err != nil || incomplete != "" || !slices.Equal(got, want) {
			t.Fatalf("from %d to %d: recovered\n%s\n%v %s\nwant\n%s\nof %v", from, to, strings.Join(got, "\n"), err, incomplete, strings.Join(want, "\n"), s.writes)
		}
	}
}
