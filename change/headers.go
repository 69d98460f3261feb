package change

// The headers of a record: a consumer can filter without parsing the value.
const (
	HeaderOp              = "op"
	HeaderUID             = "uid"
	HeaderResourceVersion = "resourceVersion"
	HeaderStream          = "stream"
	HeaderSlot            = "slot"
	HeaderEpoch           = "epoch"
	HeaderBatch           = "batch"
	HeaderInferred        = "inferred"    // "true", only when it is
	HeaderGap             = "gap"         // only for a change found in a gap
	HeaderDeadLetter      = "dead-letter" // id; on a stub, and on every part of what it stands for

	// Control records have slot, epoch, batch and this.
	HeaderType = "type"

	// Parts of a dead letter have, besides the headers of their record:
	HeaderPart   = "part"  // 0, 1, 2 …
	HeaderParts  = "parts" // how many there are
	HeaderTopic  = "topic" // where the stub stands; not where the bytes could not be read: then there is none
	HeaderReason = "reason"
)
