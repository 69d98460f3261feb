package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/segmentio/kafka-go"

	"kubecdc/change"
	"kubecdc/sinks/kafka/internal/cluster"
)

// Group is the state of a consumer group.
type Group struct {
	Members []string
	Offsets change.Offsets // committed offsets in all topics
}

// Group reads the members and the committed offsets of a consumer group. A group that does not exist has neither.
func (a *Admin) Group(ctx context.Context, name string) (g Group, err error) {
	if g.Members, err = a.client.GroupMembers(ctx, name); err == nil {
		g.Offsets, err = a.client.GroupOffsets(ctx, name)
	}
	return g, a.denied(name, err)
}

// denied adds the command that grants access to a group.
func (a *Admin) denied(group string, err error) error {
	if e, ok := errors.AsType[*cluster.Error](err); ok && errors.Is(err, kafka.GroupAuthorizationFailed) {
		return &cluster.Error{Op: e.Op, Err: e.Err, Hint: "grant Read on it: " + grantOn(a.cfg, "--group", group, toRead)}
	}
	return err
}

// Bounds returns the first offset of every partition of the topics, and the offset after the last. It leaves out topics that do
// not exist.
func (a *Admin) Bounds(ctx context.Context, topics []string) (starts, ends change.Offsets, err error) {
	starts, ends = change.Offsets{}, change.Offsets{}
	for _, topic := range topics {
		start, end, err := a.client.Bounds(ctx, topic)
		if err != nil {
			return nil, nil, err
		}
		if end != nil {
			starts[topic], ends[topic] = start, end
		}
	}
	return starts, ends, nil
}

// GroupBusyError means that a consumer group has members, which would overwrite its offsets.
type GroupBusyError struct {
	Group   string
	Members []string // empty: the broker does not list them
}

func (e *GroupBusyError) Error() string {
	members := "members"
	if len(e.Members) > 0 {
		members += ": " + strings.Join(e.Members, ", ")
	}
	return fmt.Sprintf("consumer group %s has %s; stop them first: their own commits would replace the new offsets", e.Group,
		members)
}

// CommitGroup commits offsets for a consumer group. It returns *GroupBusyError while the group has members.
func (a *Admin) CommitGroup(ctx context.Context, name string, offsets change.Offsets) error {
	members, err := a.client.GroupMembers(ctx, name)
	if err != nil {
		return a.denied(name, err)
	}
	if len(members) > 0 {
		return &GroupBusyError{name, members}
	}
	err = a.client.CommitGroupOffsets(ctx, name, offsets)
	if errors.Is(err, kafka.UnknownMemberId) || errors.Is(err, kafka.RebalanceInProgress) ||
		errors.Is(err, kafka.IllegalGeneration) {
		return &GroupBusyError{Group: name}
	}
	return a.denied(name, err)
}
