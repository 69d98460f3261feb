package schema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/schema"
	"kubecdc/sinks"
	"kubecdc/sinks/postgres"
	"kubecdc/sinks/sinktest"
	"kubecdc/test/servers"
)

// The views of a real Postgres show real objects: all of them can be created and read, and made again.
func TestPostgresViews(t *testing.T) {
	url := servers.Database(t)
	fill(t, url)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for range 2 {
		for _, r := range []change.Resource{pods, deployments, autoscalers, widgets} {
			if _, err := conn.Exec(t.Context(), write(t, "postgres", r, choose(t, typeOf(t, r), schema.Columns{}))); err != nil {
				t.Fatalf("%s: %v", r.ID(), err)
			}
		}
	}
	widget := `"widgets_shop_example-corp_com`
	for query, want := range map[string][]string{
		`select * from pods`: nil, // deleted
		`select op, "spec_nodeName", "metadata_labels" ->> 'app', "spec_containers" -> 0 ->> 'image', resource_version = "metadata_resourceVersion"
			from pods_changes order by batch`: {"c node-1 shop nginx true", "u node-1 shop nginx true", "d node-1 shop nginx true"},
		`select "spec_replicas" + 1, "spec_strategy_rollingUpdate_maxSurge", "spec_strategy_rollingUpdate_maxUnavailable" from deployments_apps`: {"3 1 25%"},
		`select "spec_maxReplicas", "spec_metrics" -> 0 ->> 'type' from horizontalpodautoscalers_autoscaling`:                                    {"5 Resource"},
		`select name, "name_2", "spec_ratio" * 2, "spec_count", "spec_enabled", "spec_port", "spec_2nd", "spec_dotted.name", "spec_order_table",
			"spec_it's ""quoted"" ` + "`so`" + `", "spec_config" -> 'other' ->> 'deep', "spec_config_mode", "spec_pools" -> 'a' ->> 'replicas'
			from ` + widget + `"`: {"first the object's own 1 3 true http 2 c t d [1] fast 2"},
		`select * from ` + widget + `_changes" where "spec_count" <> 3`: nil,
	} {
		rows, _ := conn.Query(t.Context(), query)
		got, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
			values, err := row.Values()
			return strings.TrimSpace(fmt.Sprintln(values...)), err
		})
		if err != nil || len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngives %q (%v), not %q", query, got, err, want)
		}
	}
}

// fill writes the recorded objects to a log: pods are created, updated and deleted, all others are created.
func fill(t *testing.T, url string) {
	t.Helper()
	sink, err := postgres.Open(t.Context(), postgres.Config{URL: url, Cluster: "prod-eu1"})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	opened, err := sink.Open(t.Context(), 0, 1, sinks.Durable{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := sinktest.Tail(t.Context(), opened); err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(readFile(t, recordsFile)), []byte("\n"))
	seq := uint64(0)
	for i, line := range lines {
		r := []change.Resource{pods, deployments, autoscalers, widgets}[i/3]
		var record struct {
			Op            string
			Before, After json.RawMessage
		}
		if err := json.Unmarshal(line, &record); err != nil {
			t.Fatal(err)
		}
		if r != pods && record.Op != "c" {
			continue
		}
		seq++
		c := *changeOf(r, change.Op(record.Op[0]), image(record.Before), image(record.After))
		if _, err := opened.Log.Write(t.Context(), &change.Batch{Epoch: 1, Seq: seq, Changes: []change.Change{c}}); err != nil {
			t.Fatal(err)
		}
	}
}

// image returns nil for null.
func image(raw json.RawMessage) []byte {
	if string(raw) == "null" {
		return nil
	}
	return raw
}
