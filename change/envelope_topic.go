package change

import (
	"fmt"
	"hash/fnv"
)

// maxTopic is the longest topic name that Kafka takes (org.apache.kafka.common.internals.Topic).
const maxTopic = 249

// Topic names the topic of a resource: "<prefix>.pods", "<prefix>.deployments.apps".
func Topic(prefix string, r Resource) string { return legalTopic(prefix + "." + r.ID()) }

// TopicOf names the topic of a stream of which only the id is known.
func TopicOf(prefix string, stream StreamID) string { return Topic(prefix, ResourceOf(stream)) }

// ControlTopic names the topic that tells how far the log is complete.
func ControlTopic(prefix string) string { return legalTopic(prefix + ".control") }

// DeadLetterTopic names the topic that holds, in parts, the records that their own topic did not accept.
func DeadLetterTopic(prefix string) string { return legalTopic(prefix + ".dead-letter") }

// legalTopic keeps a name that Kafka takes as it is. Any other is made legal and marked with a hash of what it
// was, so that two names never become one.
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
	mark := fmt.Sprintf("-%016x", h.Sum64())
	return string(legal[:min(len(legal), maxTopic-len(mark))]) + mark
}

func legalTopicByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}
