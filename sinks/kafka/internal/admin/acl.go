package admin

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/segmentio/kafka-go"

	"kubecdc/sinks/kafka/internal/settings"
)

// right is an operation of an ACL.
type right string

const (
	toDescribe right = "Describe" // the other rights imply it, so if it is missing, all are missing
	toCreate   right = "Create"
	toRead     right = "Read"
	toWrite    right = "Write"
)

// grant returns the command that grants rights on all topics, or transactional ids, with a prefix.
func grant(c *settings.Config, kind, prefix string, need ...right) string {
	return grantOn(c, kind, prefix, need...) + " --resource-pattern-type prefixed"
}

// grantOn returns the command that grants rights on one resource.
func grantOn(c *settings.Config, kind, name string, need ...right) string {
	return command(c, kind+" '"+name+"'", need...)
}

func command(c *settings.Config, resource string, need ...right) string {
	return fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal 'User:%s' --operation %s %s",
		c.Brokers[0], cmp.Or(c.SASL.Username, "NAME"), join(need, " --operation "), resource)
}

// missing returns the rights that an authorization error is about, with the command that grants them. It returns "" for other
// errors.
func missing(c *settings.Config, readOnly bool, code kafka.Error) string {
	topics := []right{toRead, toWrite, toCreate}
	if readOnly {
		topics = []right{toRead}
	}
	switch code {
	case kafka.ClusterAuthorizationFailed: // only brokers before 2.8 demand it (KIP-679)
		return "grant IdempotentWrite on the cluster: " + command(c, "--cluster", "IdempotentWrite")
	case kafka.TopicAuthorizationFailed:
		return fmt.Sprintf("grant %s on the topics %s.*; exporter check names what is missing: %s", join(topics, ", "),
			c.TopicPrefix,
			grant(c, "--topic", c.TopicPrefix+".", topics...))
	case kafka.TransactionalIDAuthorizationFailed:
		return fmt.Sprintf("grant Write on the transactional ids %s-*: %s", c.TopicPrefix,
			grant(c, "--transactional-id", c.TopicPrefix+"-", toWrite))
	}
	return ""
}

func join(rights []right, separator string) string {
	var texts []string
	for _, r := range rights {
		texts = append(texts, string(r))
	}
	return strings.Join(texts, separator)
}
