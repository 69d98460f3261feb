package change

// The kinds of control record.
const (
	ControlOpen          = "open"           // a new owner of the slot, with a higher epoch, has fenced all earlier ones
	ControlBatch         = "batch"          // ends every batch: the positions that it moves to
	ControlWatermark     = "watermark"      // a stream is complete up to ResourceVersion at Time
	ControlSnapshotBegin = "snapshot-begin" // the first list of a stream starts
	ControlSnapshotEnd   = "snapshot-end"   // it ended: Objects were read
	ControlLayout        = "layout"         // the number of slots has changed: from here on other streams may belong to the slot
	ControlGap           = "gap"            // a watch could not deliver From..To: what was done about it
	// A stream ended: Cause says why. Deselected, it is complete up to ResourceVersion; removed, all its objects were deleted.
	ControlStreamEnd    = "stream-end"
	ControlStreamResume = "stream-resume" // one that was deselected is selected again, and goes on from ResourceVersion
	// The API server refuses a stream, again and again, or the sink its records: Cause says why, SinceMs since when. It is complete up to ResourceVersion.
	ControlStreamError     = "stream-error"
	ControlStreamRecovered = "stream-recovered" // it is read again
)

// Control is one record of the control topic: what a consumer needs to tell a quiet stream from a broken one.
// Fields that do not apply to a kind are left out.
type Control struct {
	Type    string `json:"type"`
	Cluster string `json:"cluster"`
	// ClusterUID tells two clusters of one name apart.
	ClusterUID string `json:"clusterUID,omitempty"`
	Slot       int    `json:"slot"`
	Epoch      int64  `json:"epoch"`
	Batch      uint64 `json:"batch"`
	TimeMs     int64  `json:"ts_ms"`

	// batch
	Changes   int        `json:"changes,omitempty"`
	Bytes     int64      `json:"bytes,omitempty"`     // of the changes, about: what reading the batch back takes
	Malformed int        `json:"malformed,omitempty"` // what could not be read, and stands in the dead letter
	Positions []Position `json:"positions,omitempty"`
	// Ranges: topic, partition, [first offset, last offset] of the batch's records.
	Ranges map[string]map[int][2]int64 `json:"ranges,omitempty"`

	// all others
	Stream          StreamID        `json:"stream,omitempty"`
	ResourceVersion ResourceVersion `json:"resourceVersion,omitempty"`

	// snapshot-end: how many objects the list held
	Objects *int `json:"objects,omitempty"`

	Gap *Gap `json:"gap,omitempty"`
	// stream-error, stream-recovered: since when the stream was refused
	SinceMs int64 `json:"since_ms,omitempty"`
	// why
	Cause string `json:"cause,omitempty"`
}

// Gap tells of a span of resourceVersions that the watch could not deliver.
type Gap struct {
	ID        string          `json:"id"`
	From      ResourceVersion `json:"from"` // complete up to here
	To        ResourceVersion `json:"to"`   // the resourceVersion of the list that closed it
	Complete  bool            `json:"complete"`
	Reason    string          `json:"reason,omitempty"` // why it is not complete
	Recovered int             `json:"recovered"`        // changes recovered with their own resourceVersions
	Inferred  int             `json:"inferred"`         // changes found only by comparing the list with the inventory
	Created   int             `json:"created"`
	Updated   int             `json:"updated"`
	Deleted   int             `json:"deleted"`
	Requests  int             `json:"requests,omitempty"` // made to the API server to recover it
	ElapsedMs int64           `json:"elapsed_ms,omitempty"`
}

// GapID names the gap of a stream that begins at from. It is the same however often the recovery is restarted.
func GapID(stream StreamID, from ResourceVersion) string { return string(stream) + ":" + string(from) }
