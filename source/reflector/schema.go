package reflector

import (
	"bytes"
	"context"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/internal/wait"
	"kubecdc/source/apiclient"
)

// lately has what a watch of custom resources has delivered in the last seconds.
//
// After a change of the CRD's schema kube-apiserver prunes the objects of open watches by the old schema, for up to a second.
// Then it ends these watches. So an object that was written in that second is in the log at its right version, without its new
// members. Neither a list nor a proof would show that.
//
// The stream reads these objects again once the CRD's generation has moved, or can't be read and the server has ended the watch.
// It emits each difference as an inferred update, after a gap record with the reason.
type lately struct {
	seed       maphash.Seed
	new, old   map[string]bodyHash // by key
	since      time.Time           // when new was begun
	generation int64               // the CRD's generation when the watch began, or 0 if it is not known
	builtIn    bool                // the resource has no CRD
	ended      bool                // the server has ended a watch
	timedOut   bool                // the last watch ran into its timeout
}

const (
	// latelyFor is the shortest time for which an event is retained, and latelyMost the largest number of retained events.
	latelyFor, latelyMost = 10 * time.Second, 2000
	// schemaSettles is how long an API server may take to read objects by the new schema.
	schemaSettles = 2 * time.Second
)

// mayHaveCRD reports whether a resource may be a custom one: the groups of these have a dot.
func mayHaveCRD(r change.Resource) bool { return strings.Contains(r.Group, ".") }

func (x *lately) record(r *change.Resource, o *apiclient.Object) {
	if now := time.Now(); now.Sub(x.since) > latelyFor || len(x.new) >= latelyMost {
		x.old, x.new, x.since = x.new, map[string]bodyHash{}, now
	}
	x.new[o.Key()] = bodyHash{o.Version, x.hash(r, o.Raw)}
}

// hash leaves out the apiVersion, which differs where another version is read.
func (x *lately) hash(r *change.Resource, body []byte) uint64 {
	if x.seed == (maphash.Seed{}) {
		x.seed = maphash.MakeSeed()
	}
	return rawjson.Sum(x.seed, bytes.Replace(body, []byte(`"apiVersion":"`+r.APIVersion()+`"`), []byte(`"apiVersion":""`), 1))
}

// crdGeneration returns the generation of the resource's CRD, which moves with its schema, or 0 if it is not known.
func (r *Reflector) crdGeneration(ctx context.Context) (generation int64, builtIn bool) {
	name := r.stream.Resource.Plural + "." + r.stream.Resource.Group
	if r.lately.timedOut { // else discovery's watch may be behind the one that has ended
		if generation, found := r.client.Followed("customresourcedefinitions", name); found {
			return generation, false
		}
	}
	var crd metav1.PartialObjectMetadata
	path := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + name
	if err := r.client.ReadJSON(ctx, path, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", &crd); err != nil {
		return 0, apierrors.IsNotFound(err)
	}
	return crd.Generation, false
}

// followSchema emits what a watch may have pruned by an old schema.
func (w *watching) followSchema(ctx context.Context) error {
	x := &w.lately
	if !mayHaveCRD(w.stream.Resource) || x.builtIn {
		return nil
	}
	generation, builtIn := w.crdGeneration(ctx)
	if x.builtIn = builtIn; builtIn {
		return nil
	}
	moved := x.generation != 0 && generation != x.generation || generation == 0 && x.ended
	if moved && len(x.new)+len(x.old) > 0 {
		if err := wait.For(ctx, schemaSettles); err != nil {
			return err
		}
		if err := w.correctLately(ctx); err != nil {
			return w.failed(err, "read objects of %s again after a change of its schema", w.ID())
		}
	}
	x.generation, x.ended = generation, false
	return nil
}

// correctLately reads the objects that were delivered lately, and emits those that differ from what was emitted. After an error
// it goes on with those that are left.
func (w *watching) correctLately(ctx context.Context) error {
	x := &w.lately
	c := corrections{Reflector: w.Reflector, cause: "schema",
		reason: "the schema of its CRD has changed while objects were watched: they were read again"}
	left := map[string]bodyHash{}
	maps.Copy(left, x.old)
	maps.Copy(left, x.new) // each key once
	x.old, x.new = left, map[string]bodyHash{}
	check := func(key string, o *apiclient.Object) error {
		changed, err := c.correct(ctx, o, key, left[key], func(body []byte) uint64 { return x.hash(&w.stream.Resource, body) })
		if err != nil {
			return err
		}
		if delete(left, key); changed {
			x.record(&w.stream.Resource, o)
		}
		return nil
	}
	if err := w.readAgain(ctx, left, check); err != nil {
		return err
	}
	clear(left) // what is not there any more
	if c.written > 0 {
		w.log.Warn("the schema of the CRD has changed: wrote objects again that the watch delivered without their new members",
			"objects", c.written)
	}
	return nil
}

// readAgain reads the present states of objects: by a list if that takes fewer requests than to read each.
func (w *watching) readAgain(ctx context.Context, keys map[string]bodyHash,
	visit func(key string, o *apiclient.Object) error) error {
	if len(keys) < 2+w.known.Len()/w.pace.Limit() {
		for _, key := range slices.Collect(maps.Keys(keys)) {
			o, err := w.readOne(ctx, key)
			if err == nil && o != nil {
				err = visit(key, o)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	options := apiclient.ListOptions{MetadataOnly: w.options.MetadataOnly, Pace: w.pace}
	for {
		p, err := apiclient.Repeat(ctx, func() (apiclient.Page, error) {
			return w.client.List(ctx, w.stream, options, func(_ *apiclient.Page, o *apiclient.Object, unreadable error) error {
				if _, wanted := keys[o.Key()]; unreadable != nil || !wanted {
					return nil
				}
				copied := *o
				copied.Raw = bytes.Clone(o.Raw)
				return visit(o.Key(), &copied)
			})
		})
		if apiclient.IsGone(err) { // the version of the first page was compacted
			options.Continue, options.Exact = "", ""
			continue
		}
		if options.Continue, options.Exact = p.Continue, p.Version; err != nil || options.Continue == "" {
			return err
		}
	}
}
