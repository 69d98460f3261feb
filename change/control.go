package change

import (
	"encoding/json"
	"strings"
)

// ControlType is what a control record says. Each has a constructor.
type ControlType string

const (
	// a new owner of the slot, with a higher epoch, has fenced all former ones
	ControlOpen          ControlType = "open"
	ControlBatch         ControlType = "batch"          // ends every batch, and has its positions
	ControlWatermark     ControlType = "watermark"      // a stream is complete up to ResourceVersion at Time
	ControlSnapshotBegin ControlType = "snapshot-begin" // the first list of a stream has started
	ControlSnapshotEnd   ControlType = "snapshot-end"   // the first list has ended; Objects is its size
	// Ignores says which updates this owner of the slot leaves out. It is repeated every half hour, since records expire.
	ControlSettings ControlType = "settings"
	ControlLayout   ControlType = "layout" // the number of slots has changed, and with it the streams of the slot
	// a watch could not deliver the changes From..To, and Complete says whether they were recovered
	ControlGap ControlType = "gap"
	// A stream has ended, for the reason in Cause. A deselected stream is complete up to ResourceVersion. All objects of a
	// removed one were deleted.
	ControlStreamEnd ControlType = "stream-end"
	// a deselected stream is selected again, and continues from ResourceVersion
	ControlStreamReselected ControlType = "stream-reselected"
	// The API server keeps refusing a stream, or the sink its records. Cause says why, SinceMs since when. The stream is complete
	// up to ResourceVersion.
	ControlStreamError     ControlType = "stream-error"
	ControlStreamRecovered ControlType = "stream-recovered" // the stream of an earlier stream-error is exported again
	// A stream was read late. Its changes in this batch happened between SinceMs and TimeMs, unless they record their own time.
	// At SinceMs the stream was last known to be complete.
	ControlBehind ControlType = "behind"
	// The API server answered at TimeMs, and every few seconds since SinceMs, over the connection of streams that had read all
	// events. So with this batch the log has all changes of these streams up to TimeMs. Streams is left out if it is the same as
	// in this owner's previous record.
	ControlCurrent ControlType = "current"
	// A stream was compared with the API server at ResourceVersion, object by object or by digest. Proof has the result.
	ControlProof ControlType = "proof"
	// A user has paused a stream, or resumed it. Cause names the signal. The stream is complete up to ResourceVersion.
	ControlStreamPaused  ControlType = "stream-paused"
	ControlStreamResumed ControlType = "stream-resumed"
	// how far the exporter is with what a user has asked for. Cause says why it failed
	ControlSignal ControlType = "signal"

	// The values of a topic have another schema from here on. At the start of a session it may be the same schema as before.
	ControlSchema ControlType = "schema"

	// These are about a replay, in the place that it writes to:
	ControlReplayBegin    ControlType = "replay-begin"    // Replay has the plan
	ControlReplayProgress ControlType = "replay-progress" // with every transaction of records
	ControlReplayEnd      ControlType = "replay-end"      // Replay says where to go on in the live log
)

// Control is a record of the control topic. From these records a consumer can tell a quiet stream from a broken one. Fields
// that do not apply to a type are left out.
type Control struct {
	Type    ControlType `json:"type"`
	Version int         `json:"version,omitempty"` // LogVersion of the release that wrote it
	Cluster string      `json:"cluster"`
	// ClusterUID is the identifier that the cluster was first known by. It distinguishes clusters of the same name.
	ClusterUID string `json:"clusterUID,omitempty"`
	Slot       int    `json:"slot"`
	Epoch      int64  `json:"epoch"`
	Batch      uint64 `json:"batch"`
	TimeMs     int64  `json:"ts_ms"`

	Encoding string `json:"encoding,omitempty"` // open, batch: of the owner's records; empty: Debezium's JSON
	BatchEnd

	// Stream is complete up to a version. The types open, settings, batch, layout and current, and those about a replay, have no
	// stream.
	Stream          StreamID        `json:"stream,omitempty"`
	ResourceVersion ResourceVersion `json:"resourceVersion,omitempty"`

	Objects *int          `json:"objects,omitempty"` // snapshot-end: the size of the list
	Gap     *Gap          `json:"gap,omitempty"`
	Proof   *Proof        `json:"proof,omitempty"`
	Signal  *SignalRecord `json:"signal,omitempty"`
	Schema  *SchemaRecord `json:"schema,omitempty"`
	Streams []StreamID    `json:"streams,omitempty"` // current
	// stream-error, stream-recovered: when the first refusal was; behind, current
	SinceMs int64    `json:"since_ms,omitempty"`
	Cause   string   `json:"cause,omitempty"`
	Ignores []string `json:"ignores,omitempty"` // settings: the resources whose updates may be left out, with "*" for all
	Replay  *Replay  `json:"replay,omitempty"`
}

// BatchEnd is what a record says that ends a batch.
type BatchEnd struct {
	Changes   int        `json:"changes,omitempty"`
	Bytes     int64      `json:"bytes,omitempty"`     // approximate size of the changes, for reading the batch back
	Malformed int        `json:"malformed,omitempty"` // number of Malformed, which are in the dead-letter topic
	Positions []Position `json:"positions,omitempty"`
	// Ranges are the first and last offset of the batch's records, by topic and partition.
	Ranges map[string]map[int][2]int64 `json:"ranges,omitempty"`
	// Starts are where partitions begin, by topic and partition, of topics from whose beginning records were removed. A gap
	// record for each of the slot's streams says so, in this batch or an earlier one. Starts is empty if the slot had written
	// nothing to these partitions.
	Starts map[string]map[int]int64 `json:"starts,omitempty"`
	// Spread is over how many partitions of a topic the keys are spread: of the topics that the owner has begun to write to.
	Spread map[string]int `json:"spread,omitempty"`
}

// SchemaRecord names a schema in a schema registry.
type SchemaRecord struct {
	Topic   string `json:"topic"`
	Subject string `json:"subject"`
	ID      int    `json:"id"`
}

// Replay is what a control record says of a replay.
type Replay struct {
	ID      string               `json:"id"`
	Plan    json.RawMessage      `json:"plan,omitempty"`
	Records int64                `json:"records"`        // written so far
	Done    map[string][2]uint64 `json:"done,omitempty"` // the places of the live log that were written with this record
	Next    Offsets              `json:"next,omitempty"` // the offsets of the live log after the replay
}

// Gap is a span of resourceVersions that a watch could not deliver.
type Gap struct {
	ID        string          `json:"id"`
	From      ResourceVersion `json:"from"` // the stream was complete up to here
	To        ResourceVersion `json:"to"`   // resourceVersion of the list that closed the gap
	Complete  bool            `json:"complete"`
	Reason    string          `json:"reason,omitempty"` // why the gap is not complete
	Recovered int             `json:"recovered"`        // changes recovered with their own resourceVersions
	Inferred  int             `json:"inferred"`         // changes found by comparing the list with the inventory
	Created   int             `json:"created"`
	Updated   int             `json:"updated"`
	Deleted   int             `json:"deleted"`
	Requests  int             `json:"requests,omitempty"` // to the API server
	ElapsedMs int64           `json:"elapsed_ms,omitempty"`
}

// Lost reports that the log itself has lost records of the stream, which is written again from here on.
func (g *Gap) Lost() bool { return g.From == UnknownVersion }

// AwaitsSpool reports that a spool is forwarded first. Another such gap follows when the log is compared.
func (g *Gap) AwaitsSpool() bool { return g.Lost() && g.Reason == LostBeforeSpool }

// These are the reasons of gaps that the log itself has.
const (
	LostRecords     = "the log has lost records; what it does not have follows"
	LostBeforeSpool = "the log has lost records; what it does not have follows once the log has what was spooled"
)

// WentBack reports that the API server's history went back, as after a restore of etcd. resourceVersions then stand for two
// states.
func (g *Gap) WentBack() bool { return strings.HasPrefix(g.Reason, HistoryWentBack) }

// HistoryWentBack begins the reason of such a gap.
const HistoryWentBack = "history went backwards"

// GapID is the id of a stream's gap that begins at from. It is the same when the recovery is restarted.
func GapID(stream StreamID, from ResourceVersion) string { return string(stream) + ":" + string(from) }
