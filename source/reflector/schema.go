package reflector

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/source/apiclient"
)

// lately has what a watch of custom resources has delivered in the last seconds. After a change of the CRD's schema kube-apiserver
// goes on for up to a second to prune the objects of open watches by the old schema, and then ends these watches. An object that was
// written in that second is in the log without its new members, at its right version, so neither a list nor a proof would show
// it. So once the CRD's generation has moved, or can't be read and the server has ended the watch, the stream reads these objects
// again, and emits what differs as inferred updates, after a gap record with the reason.
type lately struct {
	seed       maphash.Seed
	new, old   map[string]version // by key
	since      time.Time          // when new was begun
	generation int64              // of the CRD, when the watch began; 0: not known
	builtIn    bool               // the resource has no CRD
	ended      bool               // the server has ended a watch
}

const (
	// latelyKept is for how long an event is kept at least; latelyMost bounds how many are kept in that time.
	latelyKept, latelyMost = 10 * time.Second, 2000
	// schemaSettles is how long an API server may take to read objects by the new schema.
	schemaSettles = 2 * time.Second
)

// mayHaveCRD reports whether a resource may be a custom one: the groups of these have a dot.
func mayHaveCRD(r change.Resource) bool { return strings.Contains(r.Group, ".") }

// note keeps the hash of an object that the watch has delivered.
func (x *lately) note(r *change.Resource, o *apiclient.Object) {
	if now := time.Now(); now.Sub(x.since) > latelyKept || len(x.new) >= latelyMost {
		x.old, x.new, x.since = x.new, map[string]version{}, now
	}
	x.new[o.Key()] = version{o.Version, x.hash(r, o.Raw)}
}

// hash leaves out the apiVersion, which differs where another version is read.
func (x *lately) hash(r *change.Resource, body []byte) uint64 {
	if x.seed == (maphash.Seed{}) {
		x.seed = maphash.MakeSeed()
	}
	return rawjson.Sum(x.seed, bytes.Replace(body, []byte(`"apiVersion":"`+r.APIVersion()+`"`), []byte(`"apiVersion":""`), 1))
}

// crdGeneration returns the generation of the resource's CRD, which moves with its schema; 0: it is not known.
func (r *Reflector) crdGeneration(ctx context.Context) (generation int64, builtIn bool) {
	var crd metav1.PartialObjectMetadata
	path := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + r.stream.Resource.Plural + "." + r.stream.Resource.Group
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
		if err := sleep(ctx, schemaSettles); err != nil {
			return err
		}
		if err := w.correctLately(ctx); err != nil {
			return fmt.Errorf("read objects of %s again after a change of its schema: %w", w.ID(), err)
		}
	}
	x.generation, x.ended = generation, false
	return nil
}

// correctLately reads the objects that were delivered lately, and emits those that differ from what was emitted.
func (w *watching) correctLately(ctx context.Context) error {
	x, corrected := &w.lately, 0
	gap := change.Gap{ID: string(w.ID()) + ":schema:" + string(w.position), From: w.position, To: w.position, Complete: true,
		Reason: "the schema of its CRD has changed while objects were watched: they were read again"}
	for key, emitted := range x.all() {
		o, err := w.readOne(ctx, key)
		if err != nil {
			return err
		}
		if o == nil || o.Version != emitted.version || o.Prepare(w.options.Redactor, &w.stream.Resource) != nil {
			continue // the watch delivers what is newer
		}
		if known, ok := w.known.Get(key); !ok || known.UID != o.UID || x.hash(&w.stream.Resource, o.Raw) == emitted.hash {
			continue
		}
		if corrected++; corrected == 1 {
			if err := w.sendControl(ctx, change.GapControl(w.ID(), w.position, gap, gap.Reason)); err != nil {
				return err
			}
		}
		if err := w.sendRepaired(ctx, change.Update, o, gap.ID); err != nil {
			return err
		}
		x.note(&w.stream.Resource, o)
	}
	if corrected > 0 {
		w.log.Warn("the schema of the CRD has changed: wrote objects again that the watch delivered without their new members",
			"objects", corrected)
	}
	return nil
}

// all returns what is kept, each key once.
func (x *lately) all() map[string]version {
	all := map[string]version{}
	for _, m := range []map[string]version{x.old, x.new} {
		for key, v := range m {
			all[key] = v
		}
	}
	return all
}

// readOne reads the present state of an object; nil: there is none.
func (r *Reflector) readOne(ctx context.Context, key string) (found *apiclient.Object, err error) {
	namespace, name := change.SplitKey(key)
	options := apiclient.ListOptions{MetadataOnly: r.options.MetadataOnly, Namespace: namespace, Name: name}
	_, err = r.client.List(ctx, r.stream, options, func(_ *apiclient.Page, o *apiclient.Object, err error) error {
		if err == nil && o.Key() == key {
			kept := *o
			kept.Raw = bytes.Clone(o.Raw)
			found = &kept
		}
		return err
	})
	return found, err
}
