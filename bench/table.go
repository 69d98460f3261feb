package main

import (
	"fmt"
	"io"
	"time"
)

// table prints the results as they come, in Markdown.
type table struct {
	out   io.Writer
	lines []result
}

func (t *table) title() {
	fmt.Fprintln(t.out, "| row | of a CPU-second | CPU | wall | peak RSS | allocations | |")
	fmt.Fprintln(t.out, "|---|--:|--:|--:|--:|--:|---|")
}

func (t *table) add(results []result) {
	for _, r := range results {
		t.lines = append(t.lines, r)
		rate, speed, allocs := "", r.wall.Round(time.Millisecond).String(), ""
		if r.events > 0 {
			rate = fmt.Sprintf("%.0f %ss", r.perCPU(), r.unit)
			speed = fmt.Sprintf("%.0f/s", float64(r.events)/r.wall.Seconds())
		}
		if r.allocs > 0 {
			allocs = fmt.Sprintf("%.1f an %s", r.allocs/float64(r.events), r.unit)
		}
		fmt.Fprintf(t.out, "| %s | %s | %.2f s | %s | %s | %s | %s |\n", r.name, rate, r.cpu.Seconds(), speed, megabytes(r.peak), allocs, r.note)
	}
}

func (r result) perCPU() float64 { return float64(r.events) / r.cpu.Seconds() }

func megabytes(n int64) string { return fmt.Sprintf("%d MB", n/1e6) }

// What others did on the machine that the targets come from, where reading lines alone did 370,000 a CPU-second.
const (
	thatFloor     = 370_000
	thatCollector = 1460   // OpenTelemetry's k8sobjects receiver and Kafka exporter
	thatKubeRS    = 12_000 // kube-rs' watcher and rdkafka: no store, no checkpoint
)

// ratios compares the live rows with the floor and the informer of this run, and with what others did elsewhere,
// scaled by the floors of both machines.
func (t *table) ratios() {
	floor, informer := t.find("floor-live"), t.find("informer-live")
	if floor == 0 {
		return
	}
	fmt.Fprintf(t.out, "\nThis machine reads %.0f lines a CPU-second, %.2f of the machine that the targets come from.\n\n", floor, floor/thatFloor)
	fmt.Fprintln(t.out, "| live row | of the floor | × informer | × collector, scaled | × kube-rs, scaled |")
	fmt.Fprintln(t.out, "|---|--:|--:|--:|--:|")
	for _, r := range t.lines {
		if r.unit != "event" {
			continue
		}
		scaled := r.perCPU() / floor * thatFloor
		over := "" // the informer's
		if informer > 0 {
			over = fmt.Sprintf("%.1f", r.perCPU()/informer)
		}
		fmt.Fprintf(t.out, "| %s | %.1f%% | %s | %.1f | %.1f |\n", r.name, 100*r.perCPU()/floor, over, scaled/thatCollector, scaled/thatKubeRS)
	}
}

func (t *table) find(name string) float64 {
	for _, r := range t.lines {
		if r.name == name {
			return r.perCPU()
		}
	}
	return 0
}
