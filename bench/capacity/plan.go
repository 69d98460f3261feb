package main

import (
	"fmt"
	"math"
	"slices"

	"kubecdc/change"
)

// setup is what an exporter is given.
type setup struct {
	slots, processes int
	commit           float64 // seconds from the begin of a batch to the begin of the next: the linger, or the sink's time, if that is longer
}

// plan is what it will take. Rates are by second.
type plan struct {
	changes, batches, partitions, requests, checkpoints float64
	slotRates                                           []float64          // changes of each slot
	objects, kilobytes                                  float64            // kilobytes: of the objects that change
	bytes                                               map[string]float64 // bytes of each topic, one replica
	control, transactions                               float64            // bytes, one replica
	exporter, brokers, postgres, server                 float64            // cores
	wal                                                 float64            // bytes
	memory                                              float64            // bytes of memory of a process
}

func (c cluster) plan(s setup) (p plan, err error) {
	lives, err := readLives()
	if err != nil {
		return p, err
	}
	bySlot := make([][]resource, s.slots)
	for _, r := range c.resources() {
		slot := change.SlotOf(change.NewStream(r.Resource, "", "", "").ID(), s.slots)
		bySlot[slot] = append(bySlot[slot], r)
	}
	p.bytes = map[string]float64{}
	for _, resources := range bySlot {
		p.addSlot(resources, s, lives)
	}
	p.control = p.batches*controlBatch + p.partitions*controlPartition
	p.transactions = p.batches*transactionBatch + p.partitions*transactionPartition
	p.exporter = float64(s.processes)*exporterAtRest + p.batches*exporterBatch +
		p.checkpoints*exporterCommit + p.changes*exporterChange + p.kilobytes*exporterKilo
	p.brokers = brokersAtRest + p.batches*brokersBatch + p.requests*brokersRequest
	p.postgres = float64(s.processes)*postgresAtRest + p.checkpoints*postgresCommit + p.changes*postgresChange
	p.server = p.changes*serverEvent + p.kilobytes*serverKilo + p.objects*serverProof/600
	p.wal = p.changes*walChange + p.checkpoints*walCommit
	p.memory = memoryProcess + p.objects*memoryObject/float64(s.processes)
	return p, nil
}

// addSlot adds a slot's streams. Its batches follow each other as changes come: one begins as soon as there is a change, and not before
// the last one is committed. What happens at one moment is in one batch.
func (p *plan) addSlot(resources []resource, s setup, lives map[string]life) {
	moments, changes := 0.0, 0.0
	for _, r := range resources {
		moments += r.turns * float64(max(len(r.begins), len(r.ends), r.steps))
		changes += r.rate()
	}
	batches := moments / (1 + moments*s.commit)
	p.slotRates = append(p.slotRates, changes)
	p.changes, p.batches = p.changes+changes, p.batches+batches
	p.checkpoints += min(batches, moments/(1+moments))
	written := 0.0 // partitions, in a second
	for _, r := range resources {
		inBatch := max(1, r.rate()/max(batches, 1e-9))                   // changes, if any
		filled := partitions * (1 - math.Pow(1-1.0/partitions, inBatch)) // partitions
		together := inBatch / filled                                     // changes in a record batch
		cost := records[r.Plural]
		p.bytes[r.ID()] += r.rate() * (cost.packed + (cost.alone-cost.packed)/together)
		written += r.rate() / together
		p.objects += float64(r.alive)
		p.kilobytes += r.rate() * lives[r.Plural].size() / 1000
	}
	p.partitions += written
	p.requests += batches * brokers * (1 - math.Pow(1-1.0/brokers, written/max(batches, 1e-9)))
}

func (p plan) data() (sum float64) {
	for _, b := range p.bytes {
		sum += b
	}
	return sum
}

func (p plan) print(c cluster, s setup) {
	const day = 86400
	fmt.Printf("| %.0f nodes, %.0f pods, %.0f created a day | objects | changes/s | changes/day | bytes a change | GB/day, one replica | slot of %d |\n"+
		"|---|--:|--:|--:|--:|--:|--:|\n",
		c.nodes*c.scale, c.pods*c.scale, c.podsADay*c.scale, s.slots)
	for _, r := range c.resources() {
		slot := change.SlotOf(change.NewStream(r.Resource, "", "", "").ID(), s.slots)
		fmt.Printf("| %s | %d | %.1f | %.2f million | %.0f | %.1f | %d |\n", r.ID(), r.alive, r.rate(), r.rate()*day/1e6,
			p.bytes[r.ID()]/r.rate(), p.bytes[r.ID()]*day/1e9, slot)
	}
	fmt.Printf("| **all** | %.0f | %.0f | %.1f million | %.0f | %.1f | |\n\n", p.objects, p.changes, p.changes*day/1e6,
		p.data()/p.changes, p.data()*day/1e9)
	fmt.Printf("%.0f batches a second with %.0f ms for each; the busiest slot has %.0f changes a second\n",
		p.batches, 1000*s.commit, slices.Max(p.slotRates))
	fmt.Printf("Kafka, three replicas: %.0f GB a day of changes, %.0f GB of control records, %.0f GB in 7 days; %.1f cores of brokers\n",
		3*p.data()*day/1e9, 3*p.control*day/1e9, 21*(p.data()+p.control)*day/1e9, p.brokers)
	fmt.Printf("exporter: %.2f cores, %.0f MB in each of %d processes; checkpoint: %.1f commits a second, %.1f GB of WAL a day, %.2f cores\n",
		p.exporter, p.memory/1e6, s.processes, p.checkpoints, p.wal*day/1e9, p.postgres)
	fmt.Printf("API server: %d watches, %.2f cores\n", len(c.resources())+2, p.server)
}

// compare prints the plan of a trial next to the measured values.
func (r result) compare() error {
	p, err := cluster{r.Nodes, r.Pods, r.PodsADay, r.Scale}.plan(setup{r.Slots, r.Processes, r.Commit})
	if err != nil {
		return err
	}
	s, control, states := r.Seconds, r.Used.Topics["capacity.control"], r.Used.Topics["__transaction_state"]
	fmt.Println("| | predicted | measured | predicted / measured |\n|---|--:|--:|--:|")
	for _, row := range []struct {
		name                string
		predicted, measured float64
	}{
		{"changes", p.changes * s, r.Used.Changes},
		{"batches", p.batches * s, sum(r.Used.Batches)},
		{"CPU of the exporters, s", p.exporter * s, r.Used.CPU["exporter"]},
		{"CPU of the brokers, s", p.brokers * s, r.Used.CPU["java"]},
		{"CPU of Postgres, s", p.postgres * s, r.Used.CPU["postgres"]},
		{"data topics on three replicas, MB", brokers * p.data() * s / 1e6, (sum(r.Used.Topics) - control - states) / 1e6},
		{"control topic on three replicas, MB", brokers * p.control * s / 1e6, control / 1e6},
		{"WAL, MB", p.wal * s / 1e6, r.Used.WAL / 1e6},
		{"the largest process, MB", p.memory / 1e6, r.largest() / 1e6},
	} {
		fmt.Printf("| %s | %.4g | %.4g | %.2f |\n", row.name, row.predicted, row.measured, row.predicted/row.measured)
	}
	fmt.Printf("a batch took %.0f ms in the sink; from a change to its record p50 %s, p99 %s\n", 1000*r.Commit, r.P50, r.P99)
	return nil
}
