package kafka

import (
	"kubecdc/sinks/kafka/internal/admin"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/settings"
)

// These are the types of the configuration.
type (
	// Config is the configuration of the sink. Only Brokers, TopicPrefix and Cluster are required.
	Config = settings.Config
	// Pin stores how many partitions of a topic are written to.
	Pin = settings.Pin
	// SASL is how to log in. Without a Mechanism there is no login.
	SASL = settings.SASL
	// OAuth is where tokens come from.
	OAuth = settings.OAuth
)

// These are the delivery guarantees.
const (
	ExactlyOnce = settings.ExactlyOnce
	AtLeastOnce = settings.AtLeastOnce
)

type (
	// Error is a request that failed finally.
	Error = cluster.Error
	// Group is the state of a consumer group.
	Group = admin.Group
	// GroupBusyError means that a consumer group has members, which would overwrite its offsets.
	GroupBusyError = admin.GroupBusyError
)
