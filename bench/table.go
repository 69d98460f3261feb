package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
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
		fmt.Fprintf(t.out, "| %s | %s | %.2f s | %s | %s | %s | %s |\n", r.name, rate, r.cpu.Seconds(), speed, megabytes(r.peak), allocs, r.remark)
	}
}

func (r result) perCPU() float64 { return float64(r.events) / r.cpu.Seconds() }

func megabytes(n int64) string { return fmt.Sprintf("%d MB", n/1e6) }

// ratios compares the live rows with each other program of this run.
func (t *table) ratios() {
	others := []string{"floor-live", "informer-live-none", "kube-rs-live-none", "kube-rs-live-snappy", "kube-rs-live-zstd", "collector-live-none"}
	others = slices.DeleteFunc(others, func(name string) bool { return t.median(name) == 0 })
	if len(others) == 0 {
		return
	}
	fmt.Fprintf(t.out, "\n| live row | × %s |\n|---|%s\n", strings.Join(others, " | × "), strings.Repeat("--:|", len(others)))
	for i, r := range t.lines {
		again := slices.ContainsFunc(t.lines[:i], func(earlier result) bool { return earlier.name == r.name })
		if r.unit != "event" || again {
			continue
		}
		fmt.Fprintf(t.out, "| %s |", r.name)
		for _, other := range others {
			fmt.Fprintf(t.out, " %.3g |", t.median(r.name)/t.median(other))
		}
		fmt.Fprintln(t.out)
	}
}

// median returns the median of all times that the row was measured, or 0 if it never was.
func (t *table) median(name string) float64 {
	var rates []float64
	for _, r := range t.lines {
		if r.name == name && r.cpu > 0 {
			rates = append(rates, r.perCPU())
		}
	}
	if len(rates) == 0 {
		return 0
	}
	slices.Sort(rates)
	return rates[len(rates)/2]
}
