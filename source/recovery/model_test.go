package recovery

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kubecdc/change"
	"kubecdc/source/known"
)

// modelled is a random history, and how a recovery reads it. The history itself, read write by write, is the judge.
type modelled struct {
	*server
	random   *rand.Rand
	from, to uint64

	selected bool // objects leave the selection and return under their uid
	leased   bool // objects expire, several at one revision
	purged   bool // somebody deletes several keys at one revision, which nothing announces
}

// newModelled makes a history of 3 to 10 objects.
func newModelled(random *rand.Rand) *modelled {
	m := &modelled{server: &server{}, random: random, from: uint64(5 + random.IntN(20)), selected: random.IntN(3) > 0,
		leased: random.IntN(5) == 0, purged: random.IntN(6) == 0}
	m.to = m.from + uint64(20+random.IntN(50))
	m.uncounted = random.IntN(10) == 0
	objects, others, moving := 3+random.IntN(8), random.IntN(4), m.selected && random.IntN(2) == 0
	for r := uint64(1); r <= m.to; r++ {
		key := fmt.Sprintf("ns-%d/%c", max(random.IntN(2), random.IntN(2)), 'a'+rune(random.IntN(objects)))
		switch all := m.objectsAt(r); {
		case random.IntN(5) < others: // another resource's revision
		case (m.leased || m.purged) && len(all) > 1 && random.IntN(6) == 0:
			m.expire(r, all)
		case moving && len(all) > 0 && random.IntN(3) > 0: // a label moves from one object to another
			m.writes = append(m.writes, write{r, change.Delete, slices.Min(slices.Collect(maps.Keys(all))), true})
		default:
			m.write(r, key, all)
		}
	}
	return m
}

func has(all map[string]known.Object, key string) bool { _, ok := all[key]; return ok }

// expire deletes several objects at one revision.
func (m *modelled) expire(r uint64, all map[string]known.Object) {
	keys := []string{}
	for key := range all {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if m.random.IntN(2) == 0 {
			m.writes = append(m.writes, write{r, change.Delete, key, false})
		}
	}
}

// write changes an object: it may be deleted and created anew, or leave the selection and come back.
func (m *modelled) write(r uint64, key string, all map[string]known.Object) {
	w := write{r, change.Create, key, m.random.IntN(4) > 0 && m.left(key)}
	if has(all, key) {
		w.op = []change.Op{change.Update, change.Delete}[m.random.IntN(2)]
		w.same = w.op == change.Delete && m.selected && m.random.IntN(4) > 0
	}
	m.writes = append(m.writes, w)
}

// left reports whether the object left the selection, and may come back.
func (m *modelled) left(key string) bool {
	for _, w := range slices.Backward(m.writes) {
		if w.key == key {
			return w.op == change.Delete && w.same
		}
	}
	return false
}

// recover recovers the gap. It returns an error if the outcome is wrong. needless reports that the outcome is said to be incomplete,
// though everything could be read, or nothing is lacking.
func (m *modelled) recover(t *testing.T) (needless bool, err error) {
	log, g := randomGap(m.random, m.server, m.from, m.to)
	g.Kind.Selected, g.Kind.Several = m.selected, m.leased
	if m.purged {
		g.Kind.Aggregated = false
	}
	plan, incomplete, err := Recover(t.Context(), m.server, log, g)
	if err != nil {
		if errors.Is(err, ErrNotPossible) && m.then > 0 {
			err = nil
		}
		return false, err
	}
	if err := m.check(plan, incomplete); err != nil {
		return false, fmt.Errorf("%w\nselected %v leased %v purged %v, aggregated %v, compacts %d after %d reads\nfrom %d to %d: %s\nof %v",
			err, m.selected, m.leased, m.purged, g.Kind.Aggregated, m.then, m.after, m.from, m.to, describe(plan, incomplete), m.writes)
	}
	return incomplete != "" && !m.uncounted && (m.then == 0 || slices.Equal(changesOf(plan), m.writesBetween(m.from, m.to))), nil
}

// check compares the plan with the history.
func (m *modelled) check(plan Plan, incomplete string) error {
	want := m.writesBetween(m.from, m.to)
	if incomplete == "" && !slices.Equal(changesOf(plan), want) {
		return fmt.Errorf("said to be complete, and is not")
	}
	state, last := m.objectsAt(m.from), uint64(0)
	for _, c := range plan {
		what := text(c.Version, c.Op, c.Key)
		old, exists := state[c.Key]
		switch {
		case !c.Inferred && !slices.Contains(want, what):
			return fmt.Errorf("%q never happened", what)
		case c.Version != 0 && c.Version < last:
			return fmt.Errorf("%q comes after a change at %d", what, last)
		case exists != (c.Op != change.Create) || exists && old.UID != c.UID:
			return fmt.Errorf("%q of %s comes to %v", what, c.UID, old)
		}
		last = max(last, c.Version)
		if c.Op == change.Delete {
			delete(state, c.Key)
		} else {
			if !m.canReadAgain(c) {
				return fmt.Errorf("%q can't be read again at %d, but could be", what, c.Until)
			}
			state[c.Key] = known.Object{UID: c.UID, Version: change.VersionOf(c.Version)}
		}
	}
	end := m.objectsAt(m.to)
	for key := range end {
		if state[key] != end[key] {
			return fmt.Errorf("it ends with %s %v, which is %v", key, state[key], end[key])
		}
	}
	for key := range state {
		if !has(end, key) {
			return fmt.Errorf("it ends with %s, which does not exist", key)
		}
	}
	return nil
}

// canReadAgain reports whether a state can be read where the plan says so, if that is possible at all after the compaction.
func (m *modelled) canReadAgain(c Change) bool {
	has := func(r uint64) bool {
		return r >= m.then && m.objectsAt(r)[c.Key] == known.Object{UID: c.UID, Version: change.VersionOf(c.Version)}
	}
	if has(c.Until) || has(c.Version) {
		return true
	}
	for r := max(c.Version, m.then); r <= m.to; r++ {
		if has(r) {
			return false
		}
	}
	return true
}

// modelHistories returns how many random histories a model tries, and their seed: KUBECDC_TEST_HISTORIES and KUBECDC_TEST_SEED.
func modelHistories(t *testing.T, histories int) (n int, seed uint64) {
	t.Helper()
	seed = rand.Uint64()
	if n, err := strconv.Atoi(os.Getenv("KUBECDC_TEST_HISTORIES")); err == nil {
		histories = n
	}
	if s, err := strconv.ParseUint(os.Getenv("KUBECDC_TEST_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("%d histories, KUBECDC_TEST_SEED=%d", histories, seed)
	return histories, seed
}

// Whatever happened in a gap, and whenever the server compacts its history, the plan is just what happened, or says that it is not. It
// ends in the state that the server has, and says that something is lost only where that is true. make model: 20,000 histories.
func TestModelOfRecovery(t *testing.T) {
	histories, seed := modelHistories(t, 1500)
	counts := map[string]*[4]int{} // by class of histories: all, wrong, needlessly incomplete, and their reads
	wrong := 0
	for i := range histories {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		tuning := pastListsCost(float64(random.IntN(3)), 3*random.Float64())
		m := newModelled(random)
		m.tuning = tuning
		if random.IntN(3) == 0 {
			m.then, m.after = m.from+uint64(random.IntN(int(m.to-m.from))), random.IntN(60)
		}
		needless, err := m.recover(t)
		if counts[m.class()] == nil {
			counts[m.class()] = &[4]int{}
		}
		n := counts[m.class()]
		n[0]++
		n[3] += m.sizes + m.objects + m.names + m.full
		if needless {
			n[2]++
		}
		if err != nil {
			n[1]++
			if wrong++; wrong <= 3 {
				t.Errorf("history %d: %v", i, err)
			}
		}
	}
	for _, class := range slices.Sorted(maps.Keys(counts)) {
		n := counts[class]
		t.Logf("%-40s %6d histories, %5d wrong, %5d needlessly incomplete, %6d reads", class, n[0], n[1], n[2], n[3])
		if n[2] > 0 && !strings.Contains(class, "compacted") {
			t.Errorf("%d plans are said to be incomplete, and everything could be read", n[2])
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d recoveries are wrong", wrong, histories)
	}
}

// class names what is special about the history.
func (m *modelled) class() (class string) {
	for _, s := range []struct {
		name string
		has  bool
	}{{"selected", m.selected}, {"leased", m.leased}, {"purged", m.purged}, {"compacted", m.then > 0}} {
		if s.has {
			class += s.name + " "
		}
	}
	return class
}
