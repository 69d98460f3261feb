package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
	"sigs.k8s.io/yaml"
)

// ruleTests is a file of `promtool test rules`, as far as rules_test.yaml uses its format.
type ruleTests struct {
	RuleFiles          []string       `json:"rule_files"`
	EvaluationInterval model.Duration `json:"evaluation_interval"`
	Tests              []ruleTest     `json:"tests"`
}

type ruleTest struct {
	Name        string         `json:"name"`
	Interval    model.Duration `json:"interval"`
	InputSeries []struct {
		Series string `json:"series"`
		Values string `json:"values"`
	} `json:"input_series"`
	Queries []struct {
		Expr     string         `json:"expr"`
		EvalTime model.Duration `json:"eval_time"`
		Want     []struct {
			Labels string  `json:"labels"`
			Value  float64 `json:"value"`
		} `json:"exp_samples"`
	} `json:"promql_expr_test"`
}

// Each alert fires in its trouble and not otherwise. The queries run in Prometheus' own engine and storage. Only the step from a query
// to an alert is done here, since promtool, which does it too, needs the clients of four clouds.
func TestAlertsFireInTheirTrouble(t *testing.T) {
	var tests ruleTests
	if err := yaml.UnmarshalStrict(must[[]byte](t)(os.ReadFile(folder+"rules_test.yaml")), &tests); err != nil {
		t.Fatal(err)
	}
	alerts := must[rules](t)(readRules())
	for _, test := range tests.Tests {
		t.Run(test.Name, func(t *testing.T) { newMonitor(t, alerts).run(t, test, time.Duration(tests.EvaluationInterval)) })
	}
}

// A monitor is a Prometheus with its alerts.
type monitor struct {
	engine *promql.Engine
	db     *tsdb.DB
	parser parser.Parser
	alerts []*alert
}

type alert struct {
	rule
	hold time.Duration
	// since has the time at which each alert became active, by its labels. written has the series of ALERTS that the last round wrote.
	since   map[string]time.Time
	written map[string]labels.Labels
}

func newMonitor(t *testing.T, all rules) *monitor {
	options := tsdb.DefaultOptions()
	options.MinBlockDuration = (7 * 24 * time.Hour).Milliseconds() // the input is written first, and the alerts within its time
	db := must[*tsdb.DB](t)(tsdb.Open(t.TempDir(), nil, nil, options, nil))
	t.Cleanup(func() { db.Close() })
	p := parser.NewParser(parser.Options{})
	m := &monitor{db: db, parser: p, engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute,
		EnableAtModifier: true, NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() }, Parser: p})}
	for _, g := range all.Groups {
		for _, r := range g.Rules {
			hold := must[model.Duration](t)(model.ParseDuration(cmp.Or(r.For, "0s")))
			m.alerts = append(m.alerts, &alert{rule: r, hold: time.Duration(hold), since: map[string]time.Time{}})
		}
	}
	return m
}

func (m *monitor) run(t *testing.T, test ruleTest, step time.Duration) {
	m.load(t, test)
	for i, moment := 0, time.Unix(0, 0).UTC(); i < len(test.Queries); moment = moment.Add(step) {
		for _, a := range m.alerts {
			m.judge(t, a, moment)
		}
		for ; i < len(test.Queries) && !moment.Before(time.Unix(0, 0).Add(time.Duration(test.Queries[i].EvalTime))); i++ {
			q, want := test.Queries[i], []string{}
			for _, s := range q.Want {
				metric := must[labels.Labels](t)(m.parser.ParseMetric(s.Labels))
				want = append(want, fmt.Sprintf("%s %g", metric, s.Value))
			}
			got := []string{}
			for _, s := range m.query(t, q.Expr, moment) {
				got = append(got, fmt.Sprintf("%s %g", s.Metric, s.F))
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("at %s %s is\n%q, want\n%q", time.Duration(q.EvalTime), q.Expr, got, want)
			}
		}
	}
}

// load writes the input of a test, a sample an interval.
func (m *monitor) load(t *testing.T, test ruleTest) {
	app := m.db.Appender(context.Background())
	for _, s := range test.InputSeries {
		metric, values, err := m.parser.ParseSeriesDesc(s.Series + " " + s.Values)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			if v.Omitted {
				continue
			}
			moment := time.Duration(i) * max(time.Duration(test.Interval), time.Minute)
			if _, err := app.Append(0, metric, moment.Milliseconds(), v.Value); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
}

// judge is one round of one alert: what its query finds is pending, and fires when it has been found for long enough.
func (m *monitor) judge(t *testing.T, a *alert, moment time.Time) {
	since, series := map[string]time.Time{}, map[string]labels.Labels{}
	for _, s := range m.query(t, a.Expr, moment) {
		b := labels.NewBuilder(s.Metric).Del(labels.MetricName)
		for name, v := range a.Labels {
			b.Set(name, v)
		}
		key := b.Labels().String()
		since[key] = moment
		if before, ok := a.since[key]; ok {
			since[key] = before
		}
		state := "pending"
		if moment.Sub(since[key]) >= a.hold {
			state = "firing"
		}
		b.Set(labels.MetricName, "ALERTS").Set("alertname", a.Alert).Set("alertstate", state)
		series[b.Labels().String()] = b.Labels()
	}
	m.write(t, a.written, moment, math.Float64frombits(value.StaleNaN), series)
	m.write(t, series, moment, 1, nil)
	a.since, a.written = since, series
}

// write appends a value to each of the series that are not in except.
func (m *monitor) write(t *testing.T, series map[string]labels.Labels, moment time.Time, v float64, except map[string]labels.Labels) {
	app := m.db.Appender(context.Background())
	for _, key := range slices.Sorted(maps.Keys(series)) {
		if _, ok := except[key]; ok {
			continue
		}
		if _, err := app.Append(0, series[key], moment.UnixMilli(), v); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
}

func (m *monitor) query(t *testing.T, expr string, moment time.Time) promql.Vector {
	t.Helper()
	q, err := m.engine.NewInstantQuery(context.Background(), m.db, nil, expr, moment)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer q.Close()
	vector, err := q.Exec(context.Background()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return slices.Clone(vector)
}
