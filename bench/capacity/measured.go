package main

import (
	"encoding/json"
	"os"
)

// measured is what a trial took, without its start.
type measured struct {
	Nodes, Pods, PodsADay, Scale float64
	Slots, Processes             int
	Seconds, RestSeconds         float64
	Objects                      int                // of the first lists
	Changes                      map[string]int     // by resource
	Batches                      map[string]int     // by slot
	CPU, CPUAtRest               map[string]float64 // seconds, by program: exporter, java, postgres
	Topics                       map[string]int64   // bytes on all brokers
	WAL, Database, Commits       int64              // bytes, bytes, transactions
	Pages, Watches, Sent         int64              // of the API server: requests and bytes
	Commit                       float64            // seconds that a batch takes in the sink, on average
	P50, P99                     float64            // seconds from a change to its record
	Memory                       []int64            // of each process, at most
}

func (m *measured) write(file string) error {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

func readMeasured(file string) (m measured, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m, err
}
