package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
)

// Every query of the dashboard has a result, and more than zeros, on what an exporter exposed in the course of a test. The test of e2e
// names the folder, and the metrics whose trouble it did not make. The folder has a file for each scrape, MILLISECONDS.prom, all of one
// target.
func TestTheDashboardShowsSomething(t *testing.T) {
	folder, mayBeZero := os.Getenv("KUBECDC_TEST_SCRAPES"), strings.Fields(os.Getenv("KUBECDC_TEST_MAY_BE_ZERO"))
	if folder == "" {
		t.Skip("TestTheDashboardShowsTroubles runs it")
	}
	db := must[*tsdb.DB](t)(tsdb.Open(t.TempDir(), nil, nil, tsdb.DefaultOptions(), nil))
	defer db.Close()
	first, last, err := load(db, folder)
	if err != nil {
		t.Fatal(err)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute, LookbackDelta: 2 * time.Second,
		EnableAtModifier: true, Parser: parser.NewParser(parser.Options{})})
	for _, p := range must[dashboard](t)(readDashboard()).queries() {
		most, series, err := evaluate(engine, db, p.expr, first, last)
		switch {
		case err != nil:
			t.Errorf("%s: %s: %v", p.title, p.expr, err)
		case series == 0:
			t.Errorf("%s: nothing: %s", p.title, p.expr)
		case most == 0 && !slices.ContainsFunc(mayBeZero, func(metric string) bool { return strings.Contains(p.expr, metric) }):
			t.Errorf("%s: nothing but zeros: %s", p.title, p.expr)
		}
		t.Logf("%-50s %3d series, at most %g", p.title, series, most)
	}
}

// load appends all scrapes, and returns the times of the first and the last.
func load(db *tsdb.DB, folder string) (first, last time.Time, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.prom"))
	if err == nil && len(files) < 2 {
		err = fmt.Errorf("%s has %d scrapes", folder, len(files))
	}
	slices.Sort(files)
	for _, file := range files {
		if err != nil {
			break
		}
		var ms int64
		if ms, err = strconv.ParseInt(strings.TrimSuffix(filepath.Base(file), ".prom"), 10, 64); err != nil {
			break
		}
		last = time.UnixMilli(ms)
		if first.IsZero() {
			first = last
		}
		err = loadOne(db, file, ms)
	}
	return first, last, err
}

func loadOne(db *tsdb.DB, file string, ms int64) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	scrape := textparse.NewPromParser(text, labels.NewSymbolTable(), false)
	app := db.Appender(context.Background())
	for {
		entry, err := scrape.Next()
		if errors.Is(err, io.EOF) {
			return app.Commit()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var series labels.Labels
		scrape.Labels(&series)
		_, _, value := scrape.Series()
		target := labels.NewBuilder(series).Set("job", "kubecdc").Set("instance", "exporter")
		if _, err := app.Append(0, target.Labels(), ms, value); err != nil {
			return fmt.Errorf("%s: %s: %w", file, series, err)
		}
	}
}

// evaluate returns the largest value that a query has in the range, and how many series. The last scrape may be the only one that has what
// a slow exporter did last, so it is in the range.
func evaluate(engine *promql.Engine, db *tsdb.DB, expr string, first, last time.Time) (most float64, series int, err error) {
	const step = 500 * time.Millisecond
	query, err := engine.NewRangeQuery(context.Background(), db, nil, expr, first, last.Add(step), step)
	if err != nil {
		return 0, 0, err
	}
	defer query.Close()
	matrix, err := query.Exec(context.Background()).Matrix()
	for _, s := range matrix {
		some := false
		for _, point := range s.Floats {
			if !math.IsNaN(point.F) {
				some, most = true, max(most, point.F)
			}
		}
		if some {
			series++
		}
	}
	return most, series, err
}
