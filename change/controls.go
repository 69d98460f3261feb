package change

import "time"

// OpenControl returns the record that a new owner has the slot.
func OpenControl(encoding string) Control { return Control{Type: ControlOpen, Encoding: encoding} }

// SettingsControl returns the record that an owner may leave out updates of some resources, and no others. "*" stands for all.
func SettingsControl(ignores []string) Control {
	return Control{Type: ControlSettings, Ignores: ignores}
}

// BatchControl returns the record that ends a batch.
func BatchControl(encoding string, b BatchEnd) Control {
	return Control{Type: ControlBatch, Encoding: encoding, BatchEnd: b}
}

// WatermarkControl returns the record that a stream is complete up to a position.
func WatermarkControl(p Position) Control {
	return Control{Type: ControlWatermark, Stream: p.Stream, ResourceVersion: p.ResourceVersion, TimeMs: p.Time.UnixMilli()}
}

// SnapshotBeginControl returns the record that a stream's first list has started, and why.
func SnapshotBeginControl(s StreamID, cause string) Control {
	return Control{Type: ControlSnapshotBegin, Stream: s, Cause: cause}
}

// SnapshotEndControl returns the record that a stream's first list has ended. version is the list's version, and objects its
// size.
func SnapshotEndControl(s StreamID, version ResourceVersion, objects int) Control {
	return Control{Type: ControlSnapshotEnd, Stream: s, ResourceVersion: version, Objects: &objects}
}

// LayoutControl returns the record that the number of slots has changed, so that slots have other streams.
func LayoutControl(cause string) Control { return Control{Type: ControlLayout, Cause: cause} }

// GapControl returns the record of the changes that a watch could not deliver.
func GapControl(s StreamID, version ResourceVersion, g Gap, cause string) Control {
	return Control{Type: ControlGap, Stream: s, ResourceVersion: version, Gap: &g, Cause: cause}
}

// StreamEndControl returns the record that a stream is complete up to a position, and why it ends there.
func StreamEndControl(p Position, cause string) Control {
	return Control{Type: ControlStreamEnd, Stream: p.Stream, ResourceVersion: p.ResourceVersion, Cause: cause}
}

// StreamReselectedControl returns the record that a stream goes on, which was deselected before.
func StreamReselectedControl(p Position) Control {
	return Control{Type: ControlStreamReselected, Stream: p.Stream, ResourceVersion: p.ResourceVersion,
		Cause: "it is selected again"}
}

// StreamErrorControl returns the record that the API server refuses a stream, and since when.
func StreamErrorControl(s StreamID, version ResourceVersion, cause string, since time.Time) Control {
	return Control{Type: ControlStreamError, Stream: s, ResourceVersion: version, Cause: cause, SinceMs: since.UnixMilli()}
}

// StreamRecoveredControl returns the record that the API server no longer refuses a stream, and since when it did.
func StreamRecoveredControl(s StreamID, version ResourceVersion, cause string, since time.Time) Control {
	return Control{Type: ControlStreamRecovered, Stream: s, ResourceVersion: version, Cause: cause, SinceMs: since.UnixMilli()}
}

// CurrentControl returns the record that streams were read as their changes happened, from since to to. streams is nil if they
// are the same as in the record before.
func CurrentControl(streams []StreamID, since, to time.Time) Control {
	return Control{Type: ControlCurrent, Streams: streams, SinceMs: since.UnixMilli(), TimeMs: to.UnixMilli()}
}

// BehindControl returns the record that a batch has changes of a stream that were read late. They were read at the time read,
// and may have waited since the time since.
func BehindControl(s StreamID, version ResourceVersion, since, read time.Time) Control {
	return Control{Type: ControlBehind, Stream: s, ResourceVersion: version, SinceMs: since.UnixMilli(), TimeMs: read.UnixMilli()}
}

// ProofControl returns the record of a comparison of a stream with the API server.
func ProofControl(s StreamID, version ResourceVersion, p *Proof) Control {
	return Control{Type: ControlProof, Stream: s, ResourceVersion: version, Proof: p}
}

// StreamPausedControl says that a signal has paused a stream.
func StreamPausedControl(s StreamID, version ResourceVersion, cause string) Control {
	return Control{Type: ControlStreamPaused, Stream: s, ResourceVersion: version, Cause: cause}
}

// StreamResumedControl says that a signal has ended a stream's pause.
func StreamResumedControl(s StreamID, version ResourceVersion, cause string) Control {
	return Control{Type: ControlStreamResumed, Stream: s, ResourceVersion: version, Cause: cause}
}

// SignalControl says how far a signal is.
func SignalControl(s StreamID, version ResourceVersion, r SignalRecord, cause string) Control {
	return Control{Type: ControlSignal, Stream: s, ResourceVersion: version, Signal: &r, Cause: cause}
}

// SchemaControl says that a topic's values have another schema.
func SchemaControl(r SchemaRecord) Control { return Control{Type: ControlSchema, Schema: &r} }

// ReplayControl is one of the three records of a replay.
func ReplayControl(t ControlType, cluster string, r *Replay) Control {
	return Control{Type: t, Cluster: cluster, TimeMs: time.Now().UnixMilli(), Replay: r}
}
