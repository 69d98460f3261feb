// Command sarama prints the objects as they are: the last record of each key counts. Its argument is how many records the topics have.
// sarama shows neither its position nor the control and aborted records that may end a partition.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/IBM/sarama"
)

func main() {
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	config := sarama.NewConfig()
	config.Consumer.IsolationLevel = sarama.ReadCommitted // without it aborted records are read too
	config.Consumer.Return.Errors = true
	consumer, err := sarama.NewConsumer([]string{"kafka-1:9092"}, config)
	if err != nil {
		log.Fatal(err)
	}
	records := make(chan *sarama.ConsumerMessage)
	for _, topic := range []string{"kubecdc.pods", "kubecdc.configmaps"} {
		if err := follow(consumer, topic, records); err != nil {
			log.Fatal(err)
		}
	}
	objects := map[string]json.RawMessage{}
	for range count {
		r := <-records
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
	}
	for place, object := range objects {
		_, key, _ := strings.Cut(place, " ")
		fmt.Printf("{\"key\":%s,\"object\":%s}\n", key, object)
	}
}

// follow reads all partitions of a topic from their start. The records of one partition, and so of one key, are in order.
func follow(consumer sarama.Consumer, topic string, records chan<- *sarama.ConsumerMessage) error {
	partitions, err := consumer.Partitions(topic)
	if err != nil {
		return err
	}
	for _, partition := range partitions {
		reader, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
		if err != nil {
			return err
		}
		go func() {
			for r := range reader.Messages() {
				records <- r
			}
		}()
		go func() {
			for err := range reader.Errors() {
				log.Fatal(err)
			}
		}()
	}
	return nil
}
