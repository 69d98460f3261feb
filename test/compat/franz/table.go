// Prints the objects as they are: of each key the last record counts.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	ctx, topics := context.Background(), []string{"kubecdc.pods", "kubecdc.configmaps"}
	client, err := kgo.NewClient(kgo.SeedBrokers("kafka-1:9092"), kgo.ConsumeTopics(topics...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), // without it aborted records are read too
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.KeepControlRecords()) // they end a partition, and so show that all of it is read
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListCommittedOffsets(ctx, topics...)
	if err != nil {
		log.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset == 0 {
			delete(ends[o.Topic], o.Partition)
		}
	})
	objects := map[string]json.RawMessage{}
	for left(ends) {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			log.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if end, unread := ends[r.Topic][r.Partition]; unread && r.Offset+1 >= end.Offset {
				delete(ends[r.Topic], r.Partition)
			}
			if r.Attrs.IsControl() {
				return
			}
			var change struct {
				Op    string
				After json.RawMessage
			}
			if r.Value != nil { // a tombstone, which follows each delete, has none
				if err := json.Unmarshal(r.Value, &change); err != nil {
					log.Fatal(err)
				}
			}
			if place := r.Topic + " " + string(r.Key); r.Value == nil || change.Op == "d" {
				delete(objects, place)
			} else {
				objects[place] = change.After
			}
		})
	}
	for place, object := range objects {
		_, key, _ := strings.Cut(place, " ")
		fmt.Printf("{\"key\":%s,\"object\":%s}\n", key, object)
	}
}

func left(ends kadm.ListedOffsets) bool {
	for _, partitions := range ends {
		if len(partitions) > 0 {
			return true
		}
	}
	return false
}
