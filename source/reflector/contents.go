package reflector

import (
	"bytes"
	"context"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/source/apiclient"
	"kubecdc/source/known"
)

type bodyHash struct {
	version change.ResourceVersion
	hash    uint64
}

// contents compares, with each proof, the bodies of a part of the collection. It expects that the API server has the checkpoint's
// bodies, which were emitted last, at the same versions. A difference is no alarm, since an API server of another release, or a
// CRD with another default, returns other contents for old objects. Such an object is emitted again (corrections).
//
// While two API servers differ, each list may show another body. So an object is corrected once in a round of contentRound
// proofs.
type contents struct {
	*Reflector
	seed      maphash.Seed
	first     int                 // which page the first proof compares
	proofs    int                 // that were begun
	corrected map[uint64]struct{} // hashes of keys and versions, in this round
	differ    map[string]bodyHash // what this proof has found, with the hash of the stored body
}

// contentRound is after how many proofs the bodies of a large collection were all compared: a proof compares 1/50 of its pages.
const contentRound = 50

func newContents(r *Reflector) contents {
	return contents{Reflector: r, seed: maphash.MakeSeed(), first: rand.N(contentRound), corrected: map[uint64]struct{}{},
		differ: map[string]bodyHash{}}
}

// begin begins a proof. It returns a function that takes each page which the proof reads, and compares the bodies of some pages.
// It returns nil if no bodies can be compared now.
func (c *contents) begin(ctx context.Context, m moment) func(apiclient.ListOptions) {
	if c.proofs++; c.proofs%contentRound == 0 {
		clear(c.corrected)
	}
	clear(c.differ)
	if !c.options.Stored || m.digest.Objects == 0 || c.snapshots.Load() > 0 { // a snapshot compares all of them
		return nil
	}
	size := c.pace.Limit()
	pages := min(max((m.digest.Objects+size-1)/size, 1), contentRound)
	page := (c.first + c.proofs) % pages // how many are passed by before one is compared
	return func(o apiclient.ListOptions) {
		if page--; page < 0 {
			page += pages
			c.page(ctx, &m, o)
		}
	}
}

// page compares the bodies of a page, which a proof has read by these options. Pages that can't be read are compared by another
// proof.
func (c *contents) page(ctx context.Context, m *moment, o apiclient.ListOptions) {
	o.MetadataOnly = false
	listed := map[string]bodyHash{}
	_, err := m.client.List(ctx, m.stream, o, func(_ *apiclient.Page, o *apiclient.Object, err error) error {
		if err == nil && o.Prepare(c.options.Redactor, &m.stream.Resource) == nil {
			listed[o.Key()] = bodyHash{o.Version, rawjson.Sum(c.seed, o.Raw)}
		}
		return nil
	})
	if err == nil {
		var differ map[string]bodyHash
		differ, err = c.compareBodies(ctx, c.seed, listed, func(lacking map[string]bodyHash) error {
			return c.storeBodies(ctx, m.client, m.stream, o, lacking)
		})
		maps.Copy(c.differ, differ)
	}
	if err != nil && ctx.Err() == nil {
		c.log.Info("a proof can't compare the contents of a page; a later one does", "error", err)
	}
}

// correct emits what the proof's comparison of bodies has found.
func (p *prover) correct(ctx context.Context) error {
	c := &p.contents
	x := corrections{Reflector: c.Reflector, cause: "contents",
		reason: "objects differed from the API server's at the same resourceVersion: they were read again"}
	for _, key := range slices.Sorted(maps.Keys(c.differ)) {
		id := maphash.String(c.seed, key+"@"+string(c.differ[key].version))
		if _, done := c.corrected[id]; done {
			continue
		}
		err := p.borrowAtPosition(ctx, func() error {
			o, err := c.readOne(ctx, key)
			if err != nil {
				return err
			}
			changed, err := x.correct(ctx, o, key, c.differ[key], func(body []byte) uint64 { return rawjson.Sum(c.seed, body) })
			if changed && err == nil {
				c.corrected[id] = struct{}{}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if x.written > 0 {
		c.log.Warn("objects differed from the API server's at the same resourceVersion, as after an upgrade of Kubernetes "+
			"or with "+
			"another default in a CRD: wrote them again", "objects", x.written)
	}
	return nil
}

// compareBodies compares the bodies of listed objects with the bodies in the checkpoint at the same versions. It returns the
// objects that differ, with the hash of the stored body. A stub differs by design. lacking gets the objects without a stored
// body.
func (r *Reflector) compareBodies(ctx context.Context, seed maphash.Seed, listed map[string]bodyHash,
	lacking func(map[string]bodyHash) error) (differ map[string]bodyHash, err error) {
	differ = map[string]bodyHash{}
	if len(listed) == 0 {
		return differ, nil
	}
	err = r.inventory.Bodies(ctx, r.ID(), slices.Collect(maps.Keys(listed)), func(key string, body []byte) error {
		l := listed[key]
		delete(listed, key)
		if o, err := apiclient.ParseObject(body); change.IsStub(body) || err == nil && o.Version != l.version {
			return nil // the log has a newer one, or its commit is on its way
		}
		if hash := rawjson.Sum(seed, body); hash != l.hash {
			differ[key] = bodyHash{l.version, hash}
		}
		return nil
	})
	if err == nil && len(listed) > 0 {
		err = lacking(listed)
	}
	return differ, err
}

// storeBodies lists a page again, and stores the bodies that the checkpoint lacks, for example after KUBECDC_BEFORE=none. The log
// has these objects, so no record is written.
func (r *Reflector) storeBodies(ctx context.Context, api *apiclient.Client, from *change.Stream, page apiclient.ListOptions,
	lacking map[string]bodyHash) error {
	_, err := api.List(ctx, from, page, func(_ *apiclient.Page, o *apiclient.Object, unreadable error) error {
		if unreadable != nil || lacking[o.Key()].version != o.Version {
			return nil
		}
		o.Raw = bytes.Clone(o.Raw)
		if o.Prepare(r.options.Redactor, &from.Resource) != nil {
			return nil
		}
		if err := r.take(ctx); err != nil {
			return err
		}
		defer r.release()
		if r.known.Compare(o.Key(), o.UID, o.Version) != known.Same {
			return nil
		}
		c := r.newChange(change.Update, o)
		c.Logged = true
		return r.send(ctx, c, move{})
	})
	return err
}

// corrections are objects whose contents in the log and on the API server differ at the same version. They are emitted as
// inferred updates, after a gap record with the reason.
type corrections struct {
	*Reflector
	cause, reason string
	gap           change.Gap
	written       int
}

// correct emits an object, as it was read again, if its body is not the one that was emitted. It reports whether it has emitted
// it.
func (x *corrections) correct(ctx context.Context, o *apiclient.Object, key string, emitted bodyHash,
	hash func(body []byte) uint64) (bool, error) {
	if o == nil || o.Version != emitted.version || o.Prepare(x.options.Redactor, &x.stream.Resource) != nil {
		return false, nil // the watch delivers what is newer
	}
	if x.known.Compare(key, o.UID, o.Version) != known.Same || hash(o.Raw) == emitted.hash {
		return false, nil
	}
	if x.written == 0 {
		x.gap = change.Gap{ID: string(x.ID()) + ":" + x.cause + ":" + string(x.position), From: x.position, To: x.position,
			Complete: true, Reason: x.reason}
		if err := x.sendControl(ctx, change.GapControl(x.ID(), x.position, x.gap, x.reason)); err != nil {
			return false, err
		}
	}
	x.written++
	return true, x.sendRepaired(ctx, change.Update, o, x.gap.ID)
}

// readTimeout limits how long the watch has to wait for the read of an object.
const readTimeout = 5 * time.Second

// readOne reads the present state of an object while the watch waits. It returns nil if there is no such object.
func (r *Reflector) readOne(ctx context.Context, key string) (found *apiclient.Object, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	namespace, name := change.SplitKey(key)
	options := apiclient.ListOptions{MetadataOnly: r.options.MetadataOnly, Namespace: namespace, Name: name}
	_, err = apiclient.Repeat(ctx, func() (apiclient.Page, error) {
		return r.client.List(ctx, r.stream, options, func(_ *apiclient.Page, o *apiclient.Object, err error) error {
			if err == nil && o.Key() == key {
				copied := *o
				copied.Raw = bytes.Clone(o.Raw)
				found = &copied
			}
			return err
		})
	})
	return found, err
}
