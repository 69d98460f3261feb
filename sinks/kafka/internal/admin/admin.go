// Package admin manages the topics of a log: how they are created, and their retention. It also finds missing rights and how to
// grant them, manages the offsets of consumer groups, and checks whether an export can work. It knows the names of topics, and
// nothing of records.
package admin

import (
	"kubecdc/sinks/encoding"
	"kubecdc/sinks/kafka/internal/cluster"
	"kubecdc/sinks/kafka/internal/settings"
)

// Admin is the administration of one log.
type Admin struct {
	cfg       *settings.Config
	client    *cluster.Client
	encodings encoding.Set
	topics    *Topics
}

// New returns the administration. It does not connect.
func New(cfg *settings.Config, c *cluster.Client, e encoding.Set, t *Topics) *Admin {
	return &Admin{cfg, c, e, t}
}
