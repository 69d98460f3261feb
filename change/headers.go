package change

// The headers of a change's record, by which a consumer can filter without parsing the value.
const (
	HeaderOp              = "op" // an Op, or OpTombstone
	HeaderUID             = "uid"
	HeaderResourceVersion = "resourceVersion"
	HeaderStream          = "stream"
	HeaderNamespace       = "namespace" // absent for a cluster-scoped object
	HeaderSlot            = "slot"
	HeaderEpoch           = "epoch"
	HeaderBatch           = "batch"
	HeaderInferred        = "inferred"    // "true", or absent
	HeaderGap             = "gap"         // only of a change that was found in a gap
	HeaderDeadLetter      = "dead-letter" // id, in a record with stubs, and in every part of the original record

	HeaderEncoding    = "encoding" // the encoding of key and value, or absent for Debezium's JSON
	HeaderContentType = "content-type"

	HeaderVersion = "version" // LogVersion, only in a record whose format is not the format of version 1

	HeaderAudit = "audit" // the record's id; only of an audit record

	HeaderReplay = "replay" // id, only in a record that was written by a replay

	// Control records have slot, epoch, batch and:
	HeaderType = "type"

	// Parts of a dead letter have the headers of their record, and:
	HeaderPart   = "part"  // 0, 1, 2 …
	HeaderParts  = "parts" // number of parts
	HeaderTopic  = "topic" // topic of the record with the stubs, or absent for malformed bytes
	HeaderReason = "reason"
)

// OpTombstone is the op in the headers of a tombstone.
const OpTombstone = "tombstone"

// Past says what a change did to its object.
func (o Op) Past() string {
	return map[Op]string{Create: "created", Update: "updated", Delete: "deleted", Read: "listed"}[o]
}

// ParseOp returns the op that the headers of a record give. For a tombstone it is the delete's. ok is false if the record is of
// no change.
func ParseOp(header string) (op Op, ok bool) {
	switch {
	case header == OpTombstone:
		return Delete, true
	case len(header) == 1:
		return Op(header[0]), true
	}
	return 0, false
}
