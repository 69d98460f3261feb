package streams

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/export/inventory"
	"kubecdc/export/plan"
	"kubecdc/internal/dependency"
	"kubecdc/redact"
	"kubecdc/source/discovery"
)

// StoredRules tracks the redaction rules under which the checkpoint stores each stream's objects.
type StoredRules struct {
	slot     *plan.Slot
	epoch    int64
	mu       sync.Mutex
	byStream map[change.StreamID]string
}

// Redact applies the current rules to all objects that the checkpoint has of this slot, of streams that are no
// longer exported too. It runs after the log's tail was rolled forward, and before anything is written to the log.
func Redact(ctx context.Context, s *plan.Slot, epoch int64) (*StoredRules, error) {
	byStream, err := s.Parts.Store.Redacted(ctx)
	if err != nil {
		return nil, dependency.Tag(dependency.Checkpoint, err)
	}
	r := &StoredRules{slot: s, epoch: epoch, byStream: byStream}
	var mine []change.StreamID
	for stream, rules := range byStream {
		if strings.HasSuffix(rules, ofAggregated) {
			s.Parts.Server.RecordAggregated(change.ResourceOf(stream).Group)
		}
		if s.Owns(stream) {
			mine = append(mine, stream)
		}
	}
	return r, r.apply(ctx, mine...)
}

// apply redacts the stored objects of the streams whose rules have changed.
func (r *StoredRules) apply(ctx context.Context, streams ...change.StreamID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var changed []checkpoint.Redaction
	for _, stream := range streams {
		redactor, rules := r.redactorOf(stream), r.rulesOf(stream)
		stored, known := r.byStream[stream]
		oldRules, _ := strings.CutSuffix(stored, ofAggregated)
		now := checkpoint.Redaction{Stream: stream, Rules: rules + r.origin(stream, stored)}
		if now.Rules == stored {
			continue
		}
		if rules != oldRules {
			now.Rewrite = r.rewriteOf(stream)
		}
		changed = append(changed, now)
		if known && rules != oldRules {
			if err := r.loosen(ctx, stream, oldRules, rules); err != nil {
				return dependency.Tag(dependency.Checkpoint, err)
			}
			r.logChange(stream, oldRules, redactor)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if err := r.slot.Parts.Store.Redact(ctx, r.slot.Number, r.epoch, changed); err != nil {
		return dependency.TagCheckpoint(fmt.Errorf("redact its objects: %w", err))
	}
	for _, c := range changed {
		r.byStream[c.Stream] = c.Rules
	}
	return nil
}

// ofAggregated ends the rules text of a stream that an aggregated API server serves. Its objects outlive its APIService, even if
// that is deleted while no exporter runs.
const ofAggregated = "; aggregated"

// origin returns the end of a stream's rules text. The end remains as it was until something else is found out.
func (r *StoredRules) origin(stream change.StreamID, stored string) string {
	aggregated, known := r.slot.Parts.Server.Aggregated(change.ResourceOf(stream).Group)
	if aggregated || !known && strings.HasSuffix(stored, ofAggregated) {
		return ofAggregated
	}
	return ""
}

// withoutBodies ends the rules text of a stream if the checkpoint stores no bodies of the stream.
const withoutBodies = "; no bodies"

// rewriteOf returns how the bodies of a stream follow its rules.
func (r *StoredRules) rewriteOf(stream change.StreamID) inventory.Redactor {
	if !r.slot.Config.Before {
		return func(string, []byte) []byte { return nil }
	}
	return r.slot.Config.BodyRedactor(stream)
}

// rulesOf returns the start of a stream's rules text: by which rules it is redacted, and whether bodies are stored.
func (r *StoredRules) rulesOf(stream change.StreamID) string {
	rules := r.redactorOf(stream).String()
	if !r.slot.Config.Before {
		rules += withoutBodies
	}
	return rules
}

// loosen asks for a snapshot of a stream if its objects were redacted by other rules before. The snapshot compares bodies. It
// writes an object if the log has less of the object than the rules now allow. Where bodies can't be compared, a warning says so.
// After KUBECDC_BEFORE=none the same snapshot makes the checkpoint store the bodies (reflector.Snapshot). Updates and deletions
// before it have no before-images.
func (r *StoredRules) loosen(ctx context.Context, stream change.StreamID, was, now string) error {
	s, resource := r.slot, change.ResourceOf(stream)
	had, lacked := strings.CutSuffix(was, withoutBodies)
	has, without := strings.CutSuffix(now, withoutBodies)
	looser := had != "" && had != has
	if !discovery.Selects(s.Config.Resources, resource.ID()) || s.Config.MetadataOnly(resource) || !looser && !lacked {
		return nil
	}
	if looser && (lacked || without) {
		s.Logger.Warn("objects are exported by other rules from now on, and the checkpoint has no bodies to compare: objects "+
			"that do not "+
			"change remain in the log as they were written; exporter snapshot --all writes all objects", "stream", stream)
	}
	if without {
		return nil
	}
	return r.requestSnapshot(ctx, stream)
}

// requestSnapshot asks for a snapshot, unless one was already asked for. That happens before the new rules are stored, so a crash
// in between loses nothing.
func (r *StoredRules) requestSnapshot(ctx context.Context, stream change.StreamID) error {
	params, err := json.Marshal(SnapshotParams{})
	if err != nil {
		return err
	}
	open, err := r.slot.Parts.Store.Signals(ctx, true)
	asked := slices.ContainsFunc(open, func(g checkpoint.Signal) bool {
		return g.Kind == change.SignalSnapshot && g.Stream == stream && g.State == change.SignalRequested &&
			bytes.Equal(g.Params, params)
	})
	if err != nil || asked {
		return err
	}
	id, err := r.slot.Parts.Store.AddSignal(ctx, checkpoint.Signal{Kind: change.SignalSnapshot, Stream: stream, Params: params})
	r.slot.Logger.Info("other rules hold for objects from now on: comparing all of them with the log", "stream", stream,
		"signal", id)
	return err
}

func (r *StoredRules) logChange(stream change.StreamID, was string, now *redact.Redactor) {
	if was, _ = strings.CutSuffix(was, withoutBodies); was == now.String() {
		return
	}
	if was == "" {
		was = "all"
	}
	if now == nil {
		r.slot.Logger.Warn("objects are exported in full from now on", "stream", stream, "before", was)
		return
	}
	r.slot.Logger.Warn("redaction has changed: redacting the objects in the checkpoint; the log keeps what was exported before, "+
		"docs/security.md says how to remove it", "stream", stream, "before", was, "now", now.String())
}

// redactorOf returns a stream's redactor, or nil if its objects are exported in full.
func (r *StoredRules) redactorOf(stream change.StreamID) *redact.Redactor {
	return r.slot.Config.Redactor(change.ResourceOf(stream))
}
