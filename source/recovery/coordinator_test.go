package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kubecdc/change"
)

// etcd is one etcd with several resources.
type etcd struct {
	random    *rand.Rand
	revision  uint64
	resources []*server
	unread    float64 // share of revisions that no stream reads
	selected  bool    // objects leave the selection and return under their uid
	purged    bool    // somebody deletes several keys at one revision
}

// leasedResource is the number of the resource whose objects expire together.
const leasedResource = 0

func newEtcd(random *rand.Rand, resources int, unread float64) *etcd {
	e := &etcd{random: random, unread: unread, selected: random.IntN(2) == 0, purged: random.IntN(2) == 0}
	for range resources {
		e.resources = append(e.resources, &server{})
	}
	return e
}

// write writes one key of some resource, more often of the last ones. Of the leased one, it may delete several.
func (e *etcd) write(keys int) {
	e.revision++
	if e.random.Float64() < e.unread {
		return
	}
	n := max(e.random.IntN(len(e.resources)), e.random.IntN(len(e.resources)))
	s := e.resources[n]
	all := s.at(e.revision)
	m := &modelled{server: s, random: e.random, selected: e.selected}
	if (n == leasedResource || e.purged && e.random.IntN(4) == 0) && len(all) > 1 && e.random.IntN(4) == 0 {
		m.expire(e.revision, all)
		return
	}
	key := fmt.Sprintf("ns-%d/%c", max(e.random.IntN(2), e.random.IntN(2)), 'a'+rune(e.random.IntN(keys)))
	m.write(e.revision, key, all)
}

// in returns the server as a stream of one namespace sees it.
func (s *server) in(namespace string) *server {
	only := &server{tuning: s.tuning}
	for _, w := range s.writes {
		if in, _ := change.SplitKey(w.key); namespace == "" || in == namespace {
			only.writes = append(only.writes, w)
		}
	}
	return only
}

// peer is a stream of a server that recovers together with others.
type peer struct {
	*server
	name        string
	leased      bool
	selected    bool
	local       bool
	apart       bool
	overrides   int
	participant *Participant
	untrue      []uint64 // a revision that it told other streams, and did not write
}

func newPeer(c *Coordinator, s *server, name, namespace string, leased, local bool) *peer {
	p := &peer{server: s.in(namespace), name: name, leased: leased, local: local}
	resource := change.Resource{Version: "v1", Plural: name, Namespaced: true}
	p.participant = c.Join(change.NewStream(resource, namespace, "", ""), leased)
	p.onRead = p.checkTold
	return p
}

// checkTold looks, whenever the stream reads something, whether what it has told others is true: they go on with it at once.
func (p *peer) checkTold() {
	told := &page{}
	p.participant.writes.addTo(told, 0)
	for _, w := range p.writes {
		told[w.revision/64] &^= 1 << (w.revision % 64)
	}
	for i, word := range told {
		if word != 0 && len(p.untrue) == 0 {
			p.untrue = append(p.untrue, uint64(i*64+bits.TrailingZeros64(word)))
		}
	}
}

// recover recovers a gap as a reflector does, and returns what is wrong with the result.
func (p *peer) recover(ctx context.Context, from, to uint64, common bool) error {
	p.participant.Begin()
	defer p.participant.End()
	if _, err := p.participant.coordinator.Overrides(ctx, func(context.Context) (int, error) { return p.overrides, nil }); err != nil {
		return err
	}
	p.participant.SetStore(p.local, p.apart)
	if until := p.participant.CommonEnd(change.VersionOf(from)); common && until != 0 {
		to = until
	}
	log, g := p.gap(from, to)
	for key := range log.All() {
		k, _ := log.Get(key)
		p.participant.Wrote(k.Version)
	}
	g.Leased, g.Selected, g.Namespaced, g.Parallel, g.Participant = p.leased, p.selected, true, 2, p.participant
	p.participant.Listed(to, len(g.Changed)+len(g.Missing))
	plan, incomplete, err := Recover(ctx, p.server, log, g)
	got := told(plan)
	p.checkTold()
	if len(p.untrue) > 0 {
		return fmt.Errorf("%s from %d to %d tells others that it wrote at %d, and did not: %v", p.name, from, to, p.untrue, p.server.writes)
	}
	if want := p.between(from, to); err != nil || incomplete != "" || !slices.Equal(got, want) {
		return fmt.Errorf("%s from %d to %d: recovered\n%s\n%v %s\nwant\n%s", p.name, from, to, strings.Join(got, "\n"), err, incomplete,
			strings.Join(want, "\n"))
	}
	return nil
}

// Streams that recover at the same time, and learn from each other, find each what happened to it, whatever the others wrote: over two etcds
// with the same numbers, with several streams of a resource, with what is known of earlier tries and of watches before the gap.
func TestModelOfStreamsThatRecoverTogether(t *testing.T) {
	histories, seed := modelHistories(t, 300)
	wrong := 0
	for i := range histories {
		if errs := recoverAll(t, rand.New(rand.NewPCG(seed, uint64(i)))); len(errs) > 0 {
			if wrong++; wrong <= 3 {
				t.Errorf("history %d: %v", i, errors.Join(errs...))
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d histories are recovered wrongly", wrong, histories)
	}
}

// recoverAll makes two etcds with a history each, lets all their streams recover, and returns what is wrong with the results.
func recoverAll(t *testing.T, random *rand.Rand) (errs []error) {
	tuning := pastListsCost(float64(random.IntN(3)), 3*random.Float64())
	c := NewCoordinator(slog.New(slog.DiscardHandler))
	first, second := newEtcd(random, 2+random.IntN(4), random.Float64()/2), newEtcd(random, 2, 0.1)
	for range 40 + random.IntN(60) {
		first.write(4)
		second.write(4)
	}
	var wg sync.WaitGroup
	failed := make(chan error)
	for _, p := range newPeers(c, random, first, second) {
		p.tuning = tuning
		tries, from, pause := 1+random.IntN(3), uint64(5+random.IntN(25)), time.Duration(random.IntN(3))*100*time.Microsecond
		to, common := first.revision-uint64(random.IntN(5)), random.IntN(2) == 0
		for _, w := range p.writes { // what its watch delivered before, also after a position that it has gone back to
			if random.IntN(2) == 0 {
				p.participant.Wrote(change.VersionOf(w.revision))
			}
		}
		wg.Go(func() {
			time.Sleep(pause)
			for range tries {
				if err := p.recover(t.Context(), from, to, common); err != nil {
					failed <- fmt.Errorf("%d overrides, purged %v and %v, leased %v, selected %v: %w\nof %v",
						p.overrides, first.purged, second.purged, p.leased, p.selected, err, p.server.writes)
				}
			}
		})
	}
	go func() { wg.Wait(); close(failed) }()
	for err := range failed {
		errs = append(errs, err)
	}
	return errs
}

// newPeers are the streams of both etcds, in any order; those of some resources are of one namespace each.
func newPeers(c *Coordinator, random *rand.Rand, first, second *etcd) (peers []*peer) {
	for i, s := range first.resources {
		name, namespaces := fmt.Sprint("r", i), []string{""}
		if random.IntN(3) == 0 {
			namespaces = []string{"ns-0", "ns-1"}
		}
		for _, ns := range namespaces {
			peers = append(peers, newPeer(c, s, name, ns, i == leasedResource, true))
		}
	}
	for i, s := range second.resources {
		peers = append(peers, newPeer(c, s, fmt.Sprint("other", i), "", i == leasedResource, false))
	}
	random.Shuffle(len(peers), func(i, j int) { peers[i], peers[j] = peers[j], peers[i] })
	overrides := random.IntN(4) - 1
	for _, p := range peers {
		p.selected = first.selected || second.selected
		if p.overrides = overrides; overrides == 1 { // the second etcd is the API server's, with Events in it
			p.apart, p.local = strings.HasPrefix(p.name, "r"), true
		}
	}
	return peers
}
