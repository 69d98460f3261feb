package schema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"kubecdc/change"
	"kubecdc/schema"
	"kubecdc/sinks"
	"kubecdc/sinks/postgres"
	"kubecdc/test/hostile"
	"kubecdc/test/servers"
	"kubecdc/test/sinktest"
)

// The views of a real Postgres show real objects: all of them can be created, read, and created again.
func TestPostgresViews(t *testing.T) {
	url := servers.Database(t)
	fill(t, url)
	conn := servers.Connect(t, url)
	for range 2 {
		for _, r := range []change.Resource{pods, deployments, autoscalers, widgets} {
			if _, err := conn.Exec(t.Context(), write(t, "postgres", r, choose(t, typeOf(t, r), schema.Columns{}))); err != nil {
				t.Fatalf("%s: %v", r.ID(), err)
			}
		}
	}
	checkViewsOfViews(t, conn)
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

// checkViewsOfViews prints the views again when a user has views of them. The statement is refused, and all views remain as they
// were.
func checkViewsOfViews(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), `create view mine as select "spec_nodeName" from pods_changes`); err != nil {
		t.Fatal(err)
	}
	_, err := conn.Exec(t.Context(), write(t, "postgres", pods, choose(t, typeOf(t, pods), schema.Columns{})))
	if err == nil || !strings.Contains(err.Error(), "other objects depend on") {
		t.Errorf("views that another one reads are made again: %v", err)
	}
	var rows int
	if _, err := conn.Exec(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	if err := conn.QueryRow(t.Context(), "select count(*) from mine").Scan(&rows); err != nil || rows != 3 {
		t.Errorf("a user's view has %d rows: %v", rows, err)
	}
}

// Somebody may write an object that Postgres can't show as text. Each view is still readable, and so are the other rows and the
// object's other columns.
func TestPostgresViewsOfHostileObjects(t *testing.T) {
	url := servers.Database(t)
	contents := append(hostile.Contents(), hostile.Case{What: "in a column", Text: `{"text":"a\u0000b\\u0000\\\u0000\ud83d\ude00\udc00\ud800"}`},
		hostile.Case{What: "in a column's name", Text: `{"a\u0000b":"c"}`})
	batch := &change.Batch{Epoch: 1, Seq: 1}
	for i, name := range hostile.Names() {
		batch.Changes = append(batch.Changes, hostileWidget(name.Text, i, `{"text":"plain"}`))
	}
	for i, content := range contents {
		batch.Changes = append(batch.Changes, hostileWidget(content.What, 100+i, content.Text))
	}
	writeBatch(t, url, batch)
	text := &schema.Type{Kind: schema.String}
	object := &schema.Type{Kind: schema.Record, Fields: []schema.Field{{Name: "spec", Type: &schema.Type{Kind: schema.Record, Open: true,
		Fields: []schema.Field{{Name: "text", Type: text}, {Name: "a\x00b", Type: text}}}}}}
	conn := servers.Connect(t, url)
	if _, err := conn.Exec(t.Context(), write(t, "postgres", widgets, object)); err != nil {
		t.Fatal(err)
	}
	for _, view := range []string{"", "_changes"} {
		view = pgx.Identifier{"widgets_shop_example-corp_com" + view}.Sanitize()
		rows, _ := conn.Query(t.Context(), "select name, spec_text, \"spec_a\uFFFDb\", spec::text from "+view)
		shown := map[string][]string{}
		var name string
		var in, odd, spec *string
		_, err := pgx.ForEachRow(rows, []any{&name, &in, &odd, &spec}, func() error {
			for _, s := range []*string{in, odd, spec} {
				if s == nil {
					s = new(string)
				}
				shown[name] = append(shown[name], *s)
			}
			return nil
		})
		if err != nil || len(shown) != len(batch.Changes) {
			t.Fatalf("%s shows %d of %d objects: %v", view, len(shown), len(batch.Changes), err)
		}
		if got, want := shown["in a column"][0], "a\uFFFDb\\u0000\\\uFFFD\U0001f600\uFFFD\uFFFD"; got != want {
			t.Errorf("%s shows %q, not %q", view, got, want)
		}
		if shown["in a column's name"][1] != "c" || shown["NUL in a value"][0] != "a\uFFFDb" || shown["backslashes"][0] != `\ \\ \n \x00` {
			t.Errorf("%s shows %q", view, shown)
		}
	}
}

// A view shows each value that fits its column's type, and null for any other. A member may change its type with a new version of
// its schema, and no object may make a view fail.
func TestPostgresViewsOfOtherTypes(t *testing.T) {
	url := servers.Database(t)
	shown := map[string]string{ // the integer, number and boolean for each value
		"1": "1 1 -", `"1"`: "1 1 -", "1.5": "- 1.5 -", "-2e3": "- -2000 -", "true": "- - true", `"false"`: "- - false", "null": "- - -",
		`"x"`: "- - -", `""`: "- - -", `"1\n"`: "- - -", `" 1"`: "- - -", "{}": "- - -", "[1]": "- - -", "1e400": "- - -", "1e-400": "- - -",
		"9223372036854775807":  "9223372036854775807 9.223372036854776e+18 -",
		"-9223372036854775808": "-9223372036854775808 -9.223372036854776e+18 -",
		"9223372036854775808":  "- 9.223372036854776e+18 -", strings.Repeat("9", 400): "- - -", "0." + strings.Repeat("0", 400) + "1": "- - -",
	}
	batch := &change.Batch{Epoch: 1, Seq: 1}
	values := slices.Sorted(maps.Keys(shown))
	for i, v := range values {
		batch.Changes = append(batch.Changes, hostileWidget(fmt.Sprint(i), i, fmt.Sprintf(`{"i":%s,"n":%[1]s,"b":%[1]s,"deep":%[1]s}`, v)))
	}
	writeBatch(t, url, batch)
	record := func(fields ...schema.Field) *schema.Type { return &schema.Type{Kind: schema.Record, Fields: fields} }
	integer := schema.Field{Name: "i", Type: &schema.Type{Kind: schema.Integer}}
	object := record(schema.Field{Name: "spec", Type: record(integer, schema.Field{Name: "n", Type: &schema.Type{Kind: schema.Number}},
		schema.Field{Name: "b", Type: &schema.Type{Kind: schema.Boolean}}, schema.Field{Name: "deep", Type: record(integer)})})
	conn := servers.Connect(t, url)
	if _, err := conn.Exec(t.Context(), write(t, "postgres", widgets, object)); err != nil {
		t.Fatal(err)
	}
	for _, view := range []string{"", "_changes"} {
		rows, _ := conn.Query(t.Context(), "select name::int, concat_ws(' ', coalesce(spec_i::text, '-'), coalesce(spec_n::text, '-'), "+
			"coalesce(spec_b::text, '-')) from "+pgx.Identifier{"widgets_shop_example-corp_com" + view}.Sanitize()+" where spec_deep_i is null")
		var place, count int
		var got string
		if _, err := pgx.ForEachRow(rows, []any{&place, &got}, func() error {
			if count++; got != shown[values[place]] {
				t.Errorf("%.40s is shown as %s, not %s", values[place], got, shown[values[place]])
			}
			return nil
		}); err != nil || count != len(values) {
			t.Errorf("the view%s shows %d of %d objects: %v", view, count, len(values), err)
		}
	}
}

func hostileWidget(name string, n int, content string) change.Change {
	c := change.Change{Stream: change.NewStream(widgets, "", "", ""), Op: change.Create, Namespace: "default", Name: name,
		UID: hostile.UID(n), ResourceVersion: change.ResourceVersion(hostile.Version(n)), Time: time.Now()}
	c.After = hostile.Object("shop.example-corp.com/v1", "Widget", c.Namespace, name, c.UID, string(c.ResourceVersion), content)
	return c
}

// writeBatch writes a batch to a new log.
func writeBatch(t *testing.T, url string, b *change.Batch) {
	t.Helper()
	sink, err := postgres.Open(t.Context(), postgres.Config{URL: url, Cluster: "prod-eu1"})
	must(t, err)
	defer sink.Close()
	opened, err := sink.Open(t.Context(), 0, 1, sinks.Durable{})
	must(t, err)
	if _, err := opened.Log.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// fill writes the recorded objects to a log: pods are created, updated and deleted, all others are created.
func fill(t *testing.T, url string) {
	t.Helper()
	sink, err := postgres.Open(t.Context(), postgres.Config{URL: url, Cluster: "prod-eu1"})
	must(t, err)
	defer sink.Close()
	opened, err := sink.Open(t.Context(), 0, 1, sinks.Durable{})
	must(t, err)
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
		must(t, json.Unmarshal(line, &record))
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
