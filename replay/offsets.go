package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kubecdc/change"
	"kubecdc/internal/fault"
)

// GroupPartition is the plan for one partition of a consumer group.
type GroupPartition struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Current   int64  `json:"current"` // the committed offset, or -1
	New       int64  `json:"new"`
	Start     int64  `json:"logStart"` // the first offset in the log
	End       int64  `json:"logEnd"`
	Lag       int64  `json:"lag"`            // offsets from New to the log's end, with markers of transactions
	Gone      string `json:"gone,omitempty"` // why New is only the nearest offset in the log
}

// GroupTopics returns the topics in which a group is moved to a checkpoint. These are the named ones, else the log's topics in
// which the group has committed offsets. For a new group it returns the topics of all resources. now is the last checkpoint.
func GroupTopics(now, then *Checkpoint, committed change.Offsets, named []string, prefix string) (topics []string, err error) {
	all := change.Offsets{}.Merge(now.Offsets).Merge(then.Offsets)
	for _, topic := range named {
		if all[topic] == nil {
			return nil, fault.Usagef("--topic %s: the log has the topics %s", topic,
				strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		}
	}
	if len(named) > 0 {
		return slices.Sorted(slices.Values(named)), nil
	}
	for topic := range all {
		if committed[topic] != nil {
			topics = append(topics, topic)
		}
	}
	if len(topics) == 0 {
		delete(all, change.ControlTopic(prefix))
		delete(all, change.DeadLetterTopic(prefix))
		delete(all, change.AuditTopic(prefix))
		topics = slices.Collect(maps.Keys(all))
	}
	slices.Sort(topics)
	return topics, nil
}

// PlanGroup returns where a consumer group starts to read what came after a checkpoint. A partition without an offset is read
// from its start, since nothing in it came before.
func PlanGroup(topics []string, next, committed, starts, ends change.Offsets) (plan []GroupPartition) {
	for _, topic := range topics {
		for _, p := range slices.Sorted(maps.Keys(ends[topic])) {
			g := GroupPartition{Topic: topic, Partition: p, Current: -1, New: next[topic][p], Start: starts[topic][p],
				End: ends[topic][p]}
			if current, ok := committed[topic][p]; ok {
				g.Current = current
			}
			switch {
			case g.New < g.Start:
				g.Gone = fmt.Sprintf("%d offsets before the log's start: %d is gone", g.Start-g.New, g.New)
				g.New = g.Start
			case g.New > g.End:
				g.Gone = fmt.Sprintf("%d offsets past the log's end: was the topic recreated?", g.New-g.End)
				g.New = g.End
			}
			g.Lag = g.End - g.New
			plan = append(plan, g)
		}
	}
	return plan
}

// CSV formats offsets for kafka-consumer-groups.sh --reset-offsets --from-file.
func CSV(offsets change.Offsets) string {
	var b strings.Builder
	for _, topic := range slices.Sorted(maps.Keys(offsets)) {
		for _, p := range slices.Sorted(maps.Keys(offsets[topic])) {
			fmt.Fprintf(&b, "%s,%d,%d\n", topic, p, offsets[topic][p])
		}
	}
	return b.String()
}

// NewOffsets returns the offsets to commit (GroupPartition.New).
func NewOffsets(plan []GroupPartition) change.Offsets {
	o := change.Offsets{}
	for _, g := range plan {
		o.Merge(change.Offsets{g.Topic: {g.Partition: g.New}})
	}
	return o
}
