package kafka

import (
	"kubecdc/sinks/kafka/internal/admin"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/settings"
)

// The configuration.
type (
	// Config has the brokers, and how to write. Only Brokers, TopicPrefix and Cluster are required.
	Config = settings.Config
	// Pin stores how many partitions of a topic are written to.
	Pin = settings.Pin
	// SASL is how to log in. Without a Mechanism there is no login.
	SASL = settings.SASL
	// OAuth says where tokens come from.
	OAuth = settings.OAuth
)

// The delivery guarantees.
const (
	ExactlyOnce = settings.ExactlyOnce
	AtLeastOnce = settings.AtLeastOnce
)

type (
	// Error is a request that failed for good.
	Error = cluster.Error
	// Group is what is known of a consumer group.
	Group = admin.Group
	// GroupBusyError means that a consumer group has members, which would overwrite its offsets.
	GroupBusyError = admin.GroupBusyError
)
