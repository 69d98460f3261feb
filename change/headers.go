package change

// The headers of a change's record, by which a consumer can filter without parsing the value.
const (
	HeaderOp              = "op"
	HeaderUID             = "uid"
	HeaderResourceVersion = "resourceVersion"
	HeaderStream          = "stream"
	HeaderSlot            = "slot"
	HeaderEpoch           = "epoch"
	HeaderBatch           = "batch"
	HeaderInferred        = "inferred"    // "true", or absent
	HeaderGap             = "gap"         // only of a change that was found in a gap
	HeaderDeadLetter      = "dead-letter" // id; of a record with stubs, and of every part of the original record

	HeaderReplay = "replay" // id; only of a record that was written by a replay

	// Control records have slot, epoch, batch and:
	HeaderType = "type"

	// Parts of a dead letter have the headers of their record, and:
	HeaderPart   = "part"  // 0, 1, 2 …
	HeaderParts  = "parts" // number of parts
	HeaderTopic  = "topic" // topic of the record with the stubs; absent for malformed bytes
	HeaderReason = "reason"
)
