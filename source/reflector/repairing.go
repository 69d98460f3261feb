package reflector

import (
	"context"
	"fmt"

	"kubecdc/change"
	"kubecdc/source/apiclient"
	"kubecdc/source/recovery"
)

// Repair emits what the log should have of some objects, given what it really has, and returns how many objects it emitted. The
// changes are inferred, and found in the gap of the given id. It leaves out an object that has changed since the comparison,
// since the watch has emitted that change. Repair may be called while Run runs.
func (r *Reflector) Repair(ctx context.Context, gap string, repairs []change.Repair) (emitted int, err error) {
	for i := range repairs {
		written := false
		err := r.borrowAtPosition(ctx, func() (err error) {
			written, err = r.repair(ctx, gap, &repairs[i])
			return err
		})
		if err != nil {
			return emitted, fmt.Errorf("repair %q: %w", repairs[i].Key, err)
		}
		if written {
			emitted++
		}
	}
	return emitted, nil
}

func (r *Reflector) repair(ctx context.Context, gap string, repair *change.Repair) (written bool, err error) {
	revision, err := r.position.Revision()
	if err != nil {
		return false, err
	}
	o, exists, err := recovery.NewExactReads(r.client, r.stream, r.options.MetadataOnly, r.options.Redactor, false, nil, nil).
		Object(ctx, repair.Key, revision)
	if err != nil || exists != (repair.Live != nil) || exists &&
		*repair.Live != (change.Identity{UID: o.UID, ResourceVersion: o.Version}) {
		return false, err
	}
	held := repair.Held
	if old, ok := r.known.Get(repair.Key); held == nil && !exists && ok { // only the inventory has it
		held = &change.Identity{UID: old.UID, ResourceVersion: old.Version}
	}
	if held != nil && (!exists || held.UID != o.UID) {
		namespace, name := change.SplitKey(repair.Key)
		gone := apiclient.Object{Namespace: namespace, Name: name, UID: held.UID, Version: held.ResourceVersion}
		if err := r.sendRepaired(ctx, change.Delete, &gone, gap); err != nil {
			return false, err
		}
		held = nil
	}
	switch {
	case exists && held == nil:
		err = r.sendRepaired(ctx, change.Create, &o, gap)
	case exists:
		err = r.sendRepaired(ctx, change.Update, &o, gap)
	}
	return true, err
}

func (r *Reflector) sendRepaired(ctx context.Context, op change.Op, o *apiclient.Object, gap string) error {
	c := r.newChange(op, o)
	c.Inferred, c.Gap, c.Lost = true, gap, true // so it is written even if it changes nothing that counts
	return r.send(ctx, c, move{})
}
