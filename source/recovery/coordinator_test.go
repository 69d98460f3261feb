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
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/change"
	"kubecdc/source/apiclient"
)

// etcd is one etcd with several resources.
type etcd struct {
	random    *rand.Rand
	revision  uint64
	resources []*server
	unread    float64 // share of revisions that no stream reads
	spaces    int     // namespaces
	selected  bool    // objects leave the selection and return under their uid
	purged    bool    // somebody deletes several keys at one revision
}

// leasedResource is the number of the resource whose objects expire together.
const leasedResource = 0

func newEtcd(random *rand.Rand, resources int, unread float64) *etcd {
	e := &etcd{random: random, unread: unread, spaces: 2 + random.IntN(2)*random.IntN(7), selected: random.IntN(2) == 0, purged: random.IntN(2) == 0}
	for range resources {
		e.resources = append(e.resources, &server{})
	}
	return e
}

// write writes one key of some resource, more often of the last ones. If the resource is leased, it may delete several keys.
func (e *etcd) write(keys int) {
	e.revision++
	if e.random.Float64() < e.unread {
		return
	}
	n := max(e.random.IntN(len(e.resources)), e.random.IntN(len(e.resources)))
	s := e.resources[n]
	all := s.objectsAt(e.revision)
	m := &modelled{server: s, random: e.random, selected: e.selected}
	if (n == leasedResource || e.purged && e.random.IntN(4) == 0) && len(all) > 1 && e.random.IntN(4) == 0 {
		m.expire(e.revision, all)
		return
	}
	key := fmt.Sprintf("ns-%d/%c", max(e.random.IntN(e.spaces), e.random.IntN(e.spaces)), 'a'+rune(e.random.IntN(keys)))
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
	otherEtcd   bool
	overrides   int
	participant *Participant
	witnesses   []Witness
	allSpaces   *server  // in all namespaces, if the stream has one of them
	forbidden   bool     // whole may not be read
	untrue      []uint64 // a revision that it reported to other streams, and did not write
}

func newPeer(c *Coordinator, s *server, name, namespace string, leased, local bool) *peer {
	p := peerOf(c.Join(streamOf(name, namespace), leased), s, name, namespace, leased, local)
	if namespace != "" {
		p.allSpaces = s
	}
	return p
}

func peerOf(participant *Participant, s *server, name, namespace string, leased, local bool) *peer {
	p := &peer{server: s.in(namespace), name: name, leased: leased, local: local, participant: participant}
	p.onRead = p.checkShared
	return p
}

func streamOf(name, namespace string) *change.Stream {
	return change.NewStream(change.Resource{Version: "v1", Plural: name, Namespaced: true}, namespace, "", "")
}

// newWitness leaves a resource out: no stream exports it. Every tenth may not be read, and every tenth is compacted while it is read.
func newWitness(c *Coordinator, random *rand.Rand, s *server, name string, leased, local, otherEtcd bool) Witness {
	p := peerOf(c.joinWitness(streamOf(name, ""), leased), s, name, "", leased, local)
	var err error
	switch random.IntN(10) {
	case 0:
		err = errForbidden
	case 1:
		p.then, p.after = uint64(10+random.IntN(80)), random.IntN(30)
	}
	return Witness{Stream: p.participant.stream, Leased: leased, History: p,
		Store: func(context.Context) (bool, bool, error) { return local, otherEtcd, err }}
}

// checkShared checks, whenever the stream reads something, that what it has reported to other streams is true. They use it at once.
func (p *peer) checkShared() {
	shared := &page{}
	p.participant.writes.addTo(shared, 0)
	for _, w := range p.writes {
		shared[w.revision/64] &^= 1 << (w.revision % 64)
	}
	for i, word := range shared {
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
	p.participant.SetStore(p.local, p.otherEtcd)
	if until := p.participant.CommonEnd(change.VersionOf(from)); common && until != 0 {
		to = until
	}
	log, g := p.gap(from, to)
	for key := range log.All() {
		k, _ := log.Get(key)
		p.participant.Wrote(k.Version)
	}
	g.Kind.Several, g.Kind.Selected, g.Namespaced, g.Parallel, g.Participant = p.leased, p.selected, true, 2, p.participant
	p.participant.Listed(to, len(g.Changed)+len(g.Missing))
	if p.allSpaces != nil {
		g.AllNamespaces = p.allSpaces
	}
	if p.forbidden {
		g.AllNamespaces = forbidden{}
	}
	g.Witnesses = allowed(p.witnesses)
	plan, incomplete, err := Recover(ctx, p.server, log, g)
	got := changesOf(plan)
	p.checkShared()
	for _, q := range append([]*peer{p}, p.asked()...) {
		if len(q.untrue) > 0 {
			return fmt.Errorf("%s from %d to %d tells others that it wrote at %d, and did not: %v", q.name, from, to, q.untrue, q.server.writes)
		}
	}
	if want := p.writesBetween(from, to); err != nil || incomplete != "" || !slices.Equal(got, want) {
		return fmt.Errorf("%s from %d to %d: recovered\n%s\n%v %s\nwant\n%s", p.name, from, to, strings.Join(got, "\n"), err, incomplete,
			strings.Join(want, "\n"))
	}
	return nil
}

// allowed returns the witnesses that may be asked.
func allowed(all []Witness) func(func(*change.Stream, bool) bool) []Witness {
	return func(mayAsk func(*change.Stream, bool) bool) []Witness {
		return slices.DeleteFunc(slices.Clone(all), func(w Witness) bool { return !mayAsk(w.Stream, w.Leased) })
	}
}

// forbidden is a History that may not be read.
type forbidden struct{ History }

var errForbidden = apierrors.NewForbidden(schema.GroupResource{}, "", nil)

func (forbidden) Size(context.Context, uint64) (int64, error) { return 0, errForbidden }

func (forbidden) Names(context.Context, string, uint64, func(apiclient.Object) error) error {
	return errForbidden
}

func (p *peer) asked() (all []*peer) {
	for _, w := range p.witnesses {
		all = append(all, w.History.(*peer))
	}
	return all
}

// Streams that recover at the same time and learn from each other find their own changes, whatever the others wrote. There are two etcds
// with the same numbers, and several streams of a resource. Streams know something from earlier tries and from watches before the gap.
// Resources that are left out explain revisions.
func TestModelOfStreamsThatRecoverTogether(t *testing.T) {
	histories, seed := modelHistories(t, 300)
	wrong, testified, shared := 0, 0, 0
	for i := range histories {
		errs, asked, complete := recoverAll(t, rand.New(rand.NewPCG(seed, uint64(i))))
		testified, shared = testified+asked, shared+complete
		if len(errs) > 0 {
			if wrong++; wrong <= 3 {
				t.Errorf("history %d: %v", i, errors.Join(errs...))
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d histories are recovered wrongly", wrong, histories)
	}
	t.Logf("read: %d objects of what is left out, %d sizes and names of all namespaces", testified, shared)
	if testified < histories/10 || shared < histories/10 {
		t.Error("witnesses, or resources in all namespaces, are hardly read")
	}
}

// recoverAll makes two etcds with a history each, and lets all their streams recover. It returns what is wrong with the results. It also
// returns how often witnesses were read, and how often resources in all namespaces for streams of single namespaces.
func recoverAll(t *testing.T, random *rand.Rand) (errs []error, testified, shared int) {
	tuning := pastListsCost(float64(random.IntN(3)), 3*random.Float64())
	c := NewCoordinator(slog.New(slog.DiscardHandler))
	resources := 2 + random.IntN(4)
	if random.IntN(20) == 0 {
		resources += 30 // nearly all of them are quiet
	}
	first, second := newEtcd(random, resources, random.Float64()/2), newEtcd(random, 2, 0.1)
	for range 40 + random.IntN(60) {
		first.write(4)
		second.write(4)
	}
	var wg sync.WaitGroup
	failed := make(chan error)
	peers := newPeers(c, random, first, second)
	for _, p := range peers {
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
	for _, w := range peers[0].asked() {
		testified += w.objects
	}
	wholes := map[*server]bool{}
	for _, p := range peers {
		if p.allSpaces != nil && !wholes[p.allSpaces] {
			wholes[p.allSpaces] = true
			shared += p.allSpaces.sizes + p.allSpaces.names
		}
	}
	return errs, testified, shared
}

// A thousand streams recover within a minute from a server that is 200 ms away. Ten of them have objects that live and die
// unseen.
func TestManyStreamsOfAFarServerRecover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, began := NewCoordinator(slog.New(slog.DiscardHandler)), time.Now()
		var wg sync.WaitGroup
		for i := range 1000 {
			s := &server{tuning: asInProduction()}
			if i < 10 {
				key := fmt.Sprint("ns-0/", i)
				s.writes = []write{{uint64(20 + 2*i), change.Create, key, false}, {uint64(21 + 2*i), change.Delete, key, false}}
			}
			p := c.Join(streamOf(fmt.Sprint("r", i), ""), false)
			wg.Go(func() {
				p.Begin()
				defer p.End()
				_, _ = c.Overrides(t.Context(), func(context.Context) (int, error) { return 0, nil })
				p.SetStore(true, false)
				log, g := s.gap(10, 50)
				g.Participant, g.Parallel = p, 32
				p.Listed(50, len(g.Changed)+len(g.Missing))
				plan, incomplete, err := Recover(t.Context(), distant{s}, log, g)
				if err != nil || incomplete != "" || len(plan) != len(s.writes) {
					t.Errorf("stream %d: %v, %s, %v", i, changesOf(plan), incomplete, err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it takes %s", took)
		}
	})
}

// distant is a History whose server is 200 ms away.
type distant struct{ History }

func (d distant) Size(ctx context.Context, revision uint64) (int64, error) {
	time.Sleep(200 * time.Millisecond)
	return d.History.Size(ctx, revision)
}

func (d distant) Object(ctx context.Context, key string, revision uint64) (apiclient.Object, bool, error) {
	time.Sleep(200 * time.Millisecond)
	return d.History.Object(ctx, key, revision)
}

func (d distant) Names(ctx context.Context, namespace string, revision uint64, visit func(apiclient.Object) error) error {
	time.Sleep(200 * time.Millisecond)
	return d.History.Names(ctx, namespace, revision, visit)
}

// newPeers returns the streams of both etcds, in any order. Some resources have a stream for each namespace, and some resources are left
// out.
func newPeers(c *Coordinator, random *rand.Rand, first, second *etcd) (peers []*peer) {
	var witnesses []Witness
	overrides := random.IntN(4) - 1
	otherEtcd := overrides == 1 // the second etcd is the API server's, with Events in it
	add := func(s *server, spaces int, name string, leased, local, inOther bool) {
		namespaces := []string{""}
		switch random.IntN(3) {
		case 0:
			namespaces = nil
			for i := range max(2, spaces-random.IntN(2)) { // all, or all but one
				namespaces = append(namespaces, fmt.Sprint("ns-", i))
			}
		case 1:
			if len(peers) > 0 {
				witnesses = append(witnesses, newWitness(c, random, s, name, leased, local, inOther))
				return
			}
		}
		for _, ns := range namespaces {
			p := newPeer(c, s, name, ns, leased, local)
			p.forbidden = ns != "" && random.IntN(5) == 0
			p.overrides, p.otherEtcd, p.selected = overrides, inOther, first.selected || second.selected
			peers = append(peers, p)
		}
		if leased { // the same objects by another name, as those of events
			witnesses = append(witnesses, newWitness(c, random, s, name+"-again", leased, local, inOther))
		}
	}
	for _, i := range random.Perm(len(first.resources)) {
		add(first.resources[i], first.spaces, fmt.Sprint("r", i), i == leasedResource, true, otherEtcd)
	}
	for _, i := range random.Perm(len(second.resources)) {
		add(second.resources[i], second.spaces, fmt.Sprint("other", i), i == leasedResource, otherEtcd, false)
	}
	random.Shuffle(len(peers), func(i, j int) { peers[i], peers[j] = peers[j], peers[i] })
	for _, p := range peers {
		p.witnesses = witnesses
	}
	return peers
}
