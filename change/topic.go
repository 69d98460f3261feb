package change

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// maxTopic is the maximum length of a topic name in Kafka (org.apache.kafka.common.internals.Topic).
const maxTopic = 249

// Topic is the topic of a resource: "<prefix>.pods", "<prefix>.deployments.apps".
func Topic(prefix string, r Resource) string { return legalTopic(prefix + "." + r.ID()) }

// TopicOf is the topic of a stream.
func TopicOf(prefix string, stream StreamID) string { return Topic(prefix, ResourceOf(stream)) }

// IsSnapshotTopic reports whether a topic has snapshots on demand (SnapshotOf).
func IsSnapshotTopic(prefix, topic string) bool {
	return strings.HasPrefix(topic, prefix+"."+snapshotPlural+".")
}

// ControlTopic is the topic of the control records.
func ControlTopic(prefix string) string { return legalTopic(prefix + ".control") }

// DeadLetterTopic is the topic of the records that their own topic did not accept, in parts.
func DeadLetterTopic(prefix string) string { return legalTopic(prefix + ".dead-letter") }

// AuditTopic is the topic of the audit records, which say who made the changes.
func AuditTopic(prefix string) string { return legalTopic(prefix + ".audit") }

// IsDataTopic reports whether a topic is one for changes, by its name. It may belong to another prefix that begins with this one.
func IsDataTopic(prefix, topic string) bool {
	return strings.HasPrefix(topic, prefix+".") && topic != ControlTopic(prefix) && topic != DeadLetterTopic(prefix) &&
		topic != AuditTopic(prefix)
}

// legalTopic returns a legal name unchanged. In any other name it replaces illegal bytes, and appends a hash of the name, so that
// different names have different results.
func legalTopic(name string) string {
	legal := []byte(name)
	for i, c := range legal {
		if !legalTopicByte(c) {
			legal[i] = '_'
		}
	}
	if string(legal) == name && len(name) <= maxTopic {
		return name
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	suffix := fmt.Sprintf("-%016x", h.Sum64())
	return string(legal[:min(len(legal), maxTopic-len(suffix))]) + suffix
}

func legalTopicByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}
