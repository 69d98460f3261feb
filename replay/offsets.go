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
	Current   int64  `json:"current"` // the committed offset; -1: none
	New       int64  `json:"new"`
	Start     int64  `json:"logStart"` // the first offset that the log still has
	End       int64  `json:"logEnd"`
	Lag       int64  `json:"lag"`            // records from the new offset to the log's end; markers of transactions count
	Gone      string `json:"gone,omitempty"` // why the log can't give what the offset stands for; New is then the nearest offset
}

// GroupTopics chooses the topics in which a group is moved to a checkpoint: those that were named; or those of the log that it has
// offsets of; or, for a new group, those of all resources. now is the last checkpoint.
func GroupTopics(now, at *Checkpoint, committed change.Offsets, named []string, prefix string) (topics []string, err error) {
	all := change.Offsets{}.Merge(now.Offsets).Merge(at.Offsets)
	for _, topic := range named {
		if all[topic] == nil {
			return nil, fault.Usagef("--topic %s: the log has the topics %s", topic, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
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

// PlanGroup gives where a consumer group goes on to read what came after a checkpoint. In a partition without an offset nothing
// came before it.
func PlanGroup(topics []string, next, committed, starts, ends change.Offsets) (plan []GroupPartition) {
	for _, topic := range topics {
		for _, p := range slices.Sorted(maps.Keys(ends[topic])) {
			g := GroupPartition{Topic: topic, Partition: p, Current: -1, New: next[topic][p], Start: starts[topic][p], End: ends[topic][p]}
			if at, ok := committed[topic][p]; ok {
				g.Current = at
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

// CSV is the offsets as kafka-consumer-groups.sh --reset-offsets --from-file reads them.
func CSV(offsets change.Offsets) string {
	var b strings.Builder
	for _, topic := range slices.Sorted(maps.Keys(offsets)) {
		for _, p := range slices.Sorted(maps.Keys(offsets[topic])) {
			fmt.Fprintf(&b, "%s,%d,%d\n", topic, p, offsets[topic][p])
		}
	}
	return b.String()
}

func NewOffsets(plan []GroupPartition) change.Offsets {
	o := change.Offsets{}
	for _, g := range plan {
		o.Merge(change.Offsets{g.Topic: {g.Partition: g.New}})
	}
	return o
}
