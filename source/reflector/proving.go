package reflector

import (
	"context"
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/internal/wait"
	"kubecdc/source/apiclient"
	"kubecdc/source/discovery"
	"kubecdc/source/known"
)

// prover proves from time to time that the known objects are what the API server has:
//
//  1. Between two events it takes the digest of the known objects. It belongs to the stream's position P.
//  2. While the watch goes on, it reads the identities that the collection had at P (an exact read), and takes their digest.
//  3. If the digests differ, the watch waits. A second exact read, at the position of that moment, is compared with the known objects
//     one by one. Only what the second read shows is a difference.
//
// So it does not matter how far the watch is, what is written meanwhile, or when the list is made. A list that can't be read,
// since P is compacted or the server refuses, proves nothing. The next proof comes an interval later.
//
// A reader of the log compares it with a proof: it folds the stream's changes up to the proof's batch, and up to the
// resourceVersion P. An inferred change, such as a deletion, may have an older version than the state that it leads to. So a
// proof during which one was emitted is dropped.
type prover struct {
	*Reflector
	unsupported bool          // it was emitted that no proof can be made
	failed      *change.Proof // the last proof, if objects differed or were older
	fingerprint change.Digest // digest of the objects that differed in that proof
	contents    contents
}

// proofShare bounds the part of the time that the lists of a stream's proofs may take to 1/20.
const proofShare = 20

func (r *Reflector) startProving(ctx context.Context) (stop func()) {
	if r.options.Proofs <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p := &prover{Reflector: r, contents: newContents(r)}
		pause := rand.N(r.options.Proofs) // so that the streams of a process are not read together
		for wait.For(ctx, pause) == nil {
			pause = p.prove(ctx)
		}
	}()
	return func() { cancel(); <-done }
}

// prove makes one proof and returns when the next one is due.
func (p *prover) prove(ctx context.Context) (pause time.Duration) {
	if p.take(ctx) != nil {
		return 0
	}
	m, ok := p.now()
	p.release()
	if !ok {
		return min(p.options.Proofs, time.Second)
	}
	started := time.Now()
	err := p.compare(ctx, m)
	if err == nil {
		err = p.correct(ctx)
	}
	took := time.Since(started)
	if err != nil && ctx.Err() == nil {
		p.log.Info("a proof can't be made now; it is tried again", "error", err)
	}
	return time.Duration(float64(max(p.options.Proofs, proofShare*took, apiclient.RetryAfter(err))) * (0.9 + rand.Float64()/5))
}

type moment struct {
	position change.ResourceVersion
	digest   change.Digest
	inferred int
	stream   *change.Stream
	client   *apiclient.Client
}

// now returns the stream's present state. It returns false if the known objects are not the objects of one position.
func (p *prover) now() (moment, bool) {
	if !p.settled() {
		return moment{}, false
	}
	return moment{p.position, p.known.Digest(), p.inferred, p.stream, p.client}, true
}

func (p *prover) identities(ctx context.Context, m moment, visit func(o *apiclient.Object),
	read func(apiclient.ListOptions)) error {
	_, err := m.client.Identities(ctx, m.stream, m.position, p.pace, visit, read)
	return err
}

// compare compares the stream with the collection as it was at a moment, and emits the result.
func (p *prover) compare(ctx context.Context, m moment) error {
	started, listed := time.Now(), change.Digest{}
	aggregated, err := discovery.Aggregated(ctx, m.client, m.stream.Resource)
	switch {
	case err != nil:
		return err
	case aggregated:
		return p.notSupported(ctx, m, "it may be served by an aggregated API server, of whose exact reads nothing is known")
	}
	done, err := p.options.Lists.acquire(ctx)
	if err == nil {
		err = p.identities(ctx, m, func(o *apiclient.Object) { listed.Add(o.Key(), o.UID, o.Version) }, p.contents.begin(ctx, m))
		done()
	}
	if errors.Is(err, apiclient.ErrNotExact) || apiclient.IsInvalid(err) {
		return p.notSupported(ctx, m, apiclient.Reason(err))
	}
	if err != nil || p.take(ctx) != nil {
		return err
	}
	defer p.release()
	proof := &change.Proof{Result: change.ProofEqual}
	difference := listed.Minus(m.digest)
	switch {
	case p.inferred != m.inferred:
		return nil
	case difference == change.Digest{}:
	case p.failed != nil && difference == p.fingerprint: // the same objects differ: the watch need not wait again
		*proof = *p.failed
	default:
		var ok bool
		if m, ok = p.now(); !ok {
			return nil
		}
		limited, cancel := context.WithTimeout(ctx, max(time.Minute, 2*time.Since(started)))
		defer cancel()
		if proof, err = p.details(limited, m); err != nil {
			return err
		}
	}
	if p.failed = nil; proof.Differences() > 0 || proof.Older > 0 {
		p.failed, p.fingerprint = proof, difference
	}
	proof.ElapsedMs = time.Since(started).Milliseconds()
	return p.report(ctx, m, proof)
}

// details compares the collection at the stream's position with the known objects one by one. It marks none of them, since an
// on-demand snapshot may rely on its own marks (snapshot.go).
func (p *prover) details(ctx context.Context, m moment) (*change.Proof, error) {
	proof, seed, listed := &change.Proof{Result: change.ProofEqual}, maphash.MakeSeed(), map[uint64]struct{}{}
	err := p.identities(ctx, m, func(o *apiclient.Object) {
		listed[maphash.String(seed, o.Key())] = struct{}{}
		switch d := p.known.Compare(o.Key(), o.UID, o.Version); {
		case d == known.Same:
		case d == known.Newer && p.options.Masked: // the inventory alone had the versions of ignored updates
			proof.Older++
		case d == known.Absent:
			proof.Missing.Add(o.Key())
		default:
			proof.Stale.Add(o.Key())
		}
	}, nil)
	if err != nil {
		return nil, err
	}
	for key := range p.known.All() {
		if _, found := listed[maphash.String(seed, key)]; !found {
			proof.Extra.Add(key)
		}
	}
	if proof.Differences() > 0 {
		proof.Result = change.ProofDifferent
	}
	return proof, nil
}

// notSupported reports once that no proof can be made.
func (p *prover) notSupported(ctx context.Context, m moment, cause string) error {
	if p.unsupported || p.take(ctx) != nil {
		return nil
	}
	defer p.release()
	p.unsupported = true
	return p.report(ctx, m, &change.Proof{Result: change.ProofUnsupported, Cause: cause})
}

func (p *prover) report(ctx context.Context, m moment, proof *change.Proof) error {
	proof.Objects, proof.Digest, proof.Masked = m.digest.Objects, m.digest.String(), p.options.Masked
	switch proof.Result {
	case change.ProofDifferent:
		p.log.Error("the log differs from the API server", "position", m.position, "objects", proof.String(),
			"keys", slices.Concat(proof.Missing.Keys, proof.Stale.Keys, proof.Extra.Keys))
	case change.ProofUnsupported:
		p.log.Info("it can't be proven that the log equals the API server", "cause", proof.Cause)
	}
	return p.sendControl(ctx, change.ProofControl(p.ID(), m.position, proof))
}
