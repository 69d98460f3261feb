package audit

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"kubecdc/test/hostile"
)

// base is what the events of the tests have, as kube-apiserver writes it.
const base = `"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"6f2","stage":"ResponseComplete",`

// an audit event of one Deployment, with more members or others.
func eventOf(more string) string {
	var members, others map[string]any
	const event = `{` + base + `"requestURI":"/apis/apps/v1/namespaces/shop/deployments/web?fieldManager=kubectl-edit","verb":"patch",
		"user":{"username":"alice","groups":["dev","system:authenticated"],"extra":{"scopes":["a","b"],"token":["t"]}},
		"sourceIPs":["10.0.0.7"],"userAgent":"kubectl/v1.36","objectRef":{"resource":"deployments","namespace":"shop","name":"web",
		"apiGroup":"apps","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},
		"requestReceivedTimestamp":"2026-03-01T10:00:00.123456Z","stageTimestamp":"2026-03-01T10:00:00.223456Z",
		"annotations":{"authorization.k8s.io/decision":"allow","who.example.com/kubecdc-object3":"u-1 old 41"}}`
	if json.Unmarshal([]byte(event), &members) != nil || json.Unmarshal([]byte(`{`+more+`}`), &others) != nil {
		panic(more)
	}
	for name, value := range others {
		members[name] = value
	}
	text, _ := json.Marshal(members)
	return string(text)
}

func parse(t *testing.T, p *Parser, line string) ([]Record, Tally) {
	t.Helper()
	var all []Record
	tally := p.Parse([]byte(line), time.Unix(7, 0).UTC(), func(r Record) { all = append(all, r) })
	return all, tally
}

func TestRecord(t *testing.T) {
	got, _ := parse(t, &Parser{Extra: []string{"scopes"}}, eventOf(""))
	want := Record{ID: got[0].ID, AuditID: "6f2", Time: time.Date(2026, 3, 1, 10, 0, 0, 123456000, time.UTC),
		Answered: time.Date(2026, 3, 1, 10, 0, 0, 223456000, time.UTC), Received: time.Unix(7, 0).UTC(),
		Resource: "deployments.apps", Namespace: "shop", Name: "web", UID: "u-1", VersionBefore: "41", Effect: Wrote, Verb: "patch", Code: 200,
		Manager: "kubectl-edit", User: "alice", Groups: []string{"dev", "system:authenticated"}, UserAgent: "kubectl/v1.36",
		Extra: map[string][]string{"scopes": {"a", "b"}}, Addresses: []string{"10.0.0.7"}}
	if len(got) != 1 || len(got[0].ID) != 32 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
}

// What each kind of request tells of its object: uid, version before, version after, whether it was created, and its name.
func TestWhichObject(t *testing.T) {
	const response = `,"responseObject":{"kind":"Deployment","metadata":{"name":"web","uid":"u-9","resourceVersion":"50"}}`
	const nothing = `"annotations":{}`
	ref := func(members string) string { return `,"objectRef":{"resource":"pods","name":"web"` + members + `}` }
	for name, test := range map[string]struct{ event, want string }{
		"the policy":                          {``, "u-1 41 - false web"},
		"neither":                             {nothing, "- - - false web"},
		"RequestResponse":                     {nothing + response, "u-9 - 50 false web"},
		"both":                                {`"code":1` + response, "u-9 41 50 false web"},
		"a write tried twice":                 {`"annotations":{"p/kubecdc-object3":"u-1 old 99","p/kubecdc-object4":"u-1 old 100","p/kubecdc-object5":"u-1 old 98"}`, "u-1 100 - false web"},
		"found once, and not the other time":  {`"annotations":{"p/kubecdc-object3":"u-1 old 99","p/kubecdc-object":"u-2 new web"}`, "- - - false web"},
		"one that may change nothing":         {`"annotations":{"p/kubecdc-object3":"u-1 maybe 41"}`, "u-1 41 - false web"},
		"a deletion in two steps":             {`"verb":"delete","annotations":{"p/kubecdc-object3":"u-1 old 41","p/kubecdc-object4":"u-1 end 42","p/kubecdc-object5":"u-1 old 41"}`, "u-1 41+42 - false web"},
		"a deletion that was tried twice":     {`"verb":"delete","annotations":{"p/kubecdc-object3":"u-1 old 41","p/kubecdc-object4":"u-1 end 43","p/kubecdc-object5":"u-1 old 42"}`, "u-1 43 - false web"},
		"no annotation of the policy's":       {`"annotations":{"kubecdc-object":"u-1 old 99","p/object":"u-1 old 98"}`, "- - - false web"},
		"put":                                 {nothing + `,"verb":"update"` + ref(`,"uid":"u-3","resourceVersion":"40"`), "u-3 40 - false web"},
		"put, whatever was there":             {nothing + `,"verb":"update"` + ref(`,"resourceVersion":"0"`), "- - - false web"},
		"put that creates":                    {nothing + `,"verb":"update","responseStatus":{"code":201}`, "- - - true web"},
		"apply that creates":                  {nothing + `,"verb":"patch","responseStatus":{"code":201}`, "- - - true web"},
		"create":                              {`"verb":"create","responseStatus":{"code":201},"annotations":{"p/kubecdc-object":"u-4 new web"}`, "u-4 - - true web"},
		"create with generateName":            {`"verb":"create","annotations":{"p/kubecdc-object":"u-4 new web-x y"},"objectRef":{"resource":"pods"}`, "u-4 - - true web-x y"},
		"create, and the client sends a uid":  {nothing + `,"verb":"create"` + ref(`,"uid":"u-5"`), "- - - true web"},
		"create, with generateName, answered": {nothing + `,"verb":"create","objectRef":{"resource":"pods"}` + response, "u-9 - 50 true web"},
		"binding":                             {`"verb":"create","annotations":{"p/kubecdc-object":"u-6 new web"}` + ref(`,"subresource":"binding"`), "u-6 - - false web"},
		"eviction":                            {nothing + `,"verb":"create"` + ref(`,"subresource":"eviction"`), "- - - false web"},
		"delete, answered by a Status":        {nothing + `,"verb":"delete","responseObject":{"kind":"Status","metadata":{},"details":{"uid":"u-7"}}`, "u-7 - - false web"},
		"deletecollection":                    {`"verb":"deletecollection"` + response + `,"objectRef":{"resource":"pods"}`, "- - - false -"},
		"what is no version":                  {`"annotations":{"p/kubecdc-object3":"u-1 old x"}`, "u-1 - - false web"},
		"a request that failed in the server": {`"responseStatus":{"code":504}`, "u-1 41 - false web"},
	} {
		got, _ := parse(t, &Parser{}, eventOf(test.event))
		if len(got) != 1 {
			t.Errorf("%s: %d records", name, len(got))
			continue
		}
		r := &got[0]
		before := dash(string(r.VersionBefore))
		if r.VersionBegan != "" {
			before = string(r.VersionBegan) + "+" + before
		}
		text := fmt.Sprint(dash(r.UID), " ", before, " ", dash(string(r.VersionAfter)), " ", r.Created, " ", dash(r.Name))
		if text != test.want {
			t.Errorf("%s: %s, want %s", name, text, test.want)
		}
	}
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// A namespace is in none, though its event has its name as its namespace too.
func TestANamespaceIsInNone(t *testing.T) {
	got, _ := parse(t, &Parser{}, eventOf(`"objectRef":{"resource":"namespaces","namespace":"shop","name":"shop","apiVersion":"v1"}`))
	if len(got) != 1 || got[0].Namespace != "" || got[0].Name != "shop" {
		t.Errorf("%+v", got)
	}
}

// The effect of a request is as the policy has seen it in the last attempt. Without the policy no effect is claimed.
func TestEffects(t *testing.T) {
	for event, want := range map[string]Effect{
		``: Wrote, `"annotations":{}`: "", `"annotations":{"p/kubecdc-object3":"u-1 maybe 41"}`: Idle,
		`"annotations":{"p/kubecdc-object3":"u-1 old 41","p/kubecdc-object4":"u-1 maybe 42"}`:                             Idle,
		`"verb":"delete","annotations":{"p/kubecdc-object3":"u-1 maybe 41"}`:                                              "",
		`"verb":"delete","annotations":{"p/kubecdc-object3":"u-1 end 41"}`:                                                Wrote,
		`"objectRef":{"resource":"deployments","subresource":"scale"},"annotations":{"p/kubecdc-object3":"u-1 maybe 41"}`: "",
		`"annotations":{"p/kubecdc-object3":"u-1 maybe 41","p/kubecdc-object4":"u-1 old 42"}`:                             Wrote,
		`"requestURI":"/x?dryRun=All"`: Nothing, `"annotations":{"p/kubecdc-object":"- dry"}`: Nothing,
		`"verb":"delete","annotations":{},"requestObject":{"kind":"DeleteOptions","dryRun":["All"]}`:                                                     Nothing,
		`"verb":"deletecollection","annotations":{},"requestObject":{"kind":"DeleteOptions","dryRun":["All"]}`:                                           Nothing,
		`"verb":"create","objectRef":{"resource":"pods","subresource":"eviction"},"annotations":{},"requestObject":{"deleteOptions":{"dryRun":["All"]}}`: Nothing,
		`"verb":"patch","annotations":{},"requestObject":{"dryRun":["All"]}`:                                                                             "",
	} {
		if got, _ := parse(t, &Parser{All: true}, eventOf(event)); len(got) != 1 || got[0].Effect != want {
			t.Errorf("%s: %+v, want %q", event, got, want)
		}
	}
}

// Events that changed no object are skipped, and most of them only if they are not asked for. What is no event is counted.
func TestWhichEventsBecomeRecords(t *testing.T) {
	record, skipped, broken := Tally{Records: 1}, Tally{Skipped: 1}, Tally{Broken: 1}
	for name, test := range map[string]struct {
		line      string
		want, all Tally
	}{
		"a change":      {eventOf(``), record, record},
		"begun":         {eventOf(`"stage":"RequestReceived"`), skipped, skipped},
		"panic":         {eventOf(`"stage":"Panic","responseStatus":{"code":500}`), record, record},
		"read":          {eventOf(`"verb":"get"`), skipped, skipped},
		"watch":         {eventOf(`"verb":"watch"`), skipped, skipped},
		"refused":       {eventOf(`"responseStatus":{"code":403}`), skipped, record},
		"conflict":      {eventOf(`"responseStatus":{"code":409}`), skipped, record},
		"dry run":       {eventOf(`"requestURI":"/x?dryRun=All"`), skipped, record},
		"dry run, told": {eventOf(`"annotations":{"p/kubecdc-object":"u-1 dry"}`), skipped, record},
		"exec":          {eventOf(`"verb":"create","objectRef":{"resource":"pods","subresource":"exec"}`), skipped, skipped},
		"token":         {eventOf(`"verb":"create","objectRef":{"resource":"serviceaccounts","subresource":"token"}`), skipped, skipped},
		"review":        {eventOf(`"verb":"create","objectRef":{"resource":"subjectaccessreviews","apiGroup":"authorization.k8s.io"}`), skipped, skipped},
		"no object":     {eventOf(`"objectRef":null`), skipped, skipped},
		"not exported":  {eventOf(`"objectRef":{"resource":"leases"}`), skipped, skipped},
		"no JSON":       {`time="2026" level=info`, broken, broken},
		"cut":           {eventOf(``)[:300], broken, broken},
		"two in a line": {eventOf(``) + eventOf(``), broken, broken},
		"another line":  {`{"level":"info"}`, broken, broken},
		"a list":        {`{"kind":"EventList","items":[` + eventOf(``) + `,` + eventOf(`"verb":"get"`) + `,7]}`, Tally{1, 1, 1}, Tally{1, 1, 1}},
		"an array":      {`[` + eventOf(``) + `]`, record, record},
		"wrong types":   {eventOf(`"user":7`), broken, broken},
		"no time":       {eventOf(`"requestReceivedTimestamp":null`), broken, broken},
		"a wrong time":  {eventOf(`"stageTimestamp":"yesterday"`), broken, broken},
	} {
		p := &Parser{Wanted: func(resource, _ string) bool { return resource != "leases" }}
		if _, got := parse(t, p, test.line); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		p.All = true
		if _, got := parse(t, p, test.line); got != test.all {
			t.Errorf("%s, with all: %+v, want %+v", name, got, test.all)
		}
	}
}

// Log shippers wrap events: as objects, or as texts in which they are JSON, in lists too. EKS's come by a subscription of CloudWatch
// (https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/SubscriptionFilters.html), AKS's by Event Hubs
// (https://learn.microsoft.com/azure/azure-monitor/essentials/resource-logs-schema), where a large body is a text.
func TestWrappers(t *testing.T) {
	quoted, _ := json.Marshal(eventOf(`"responseObject":"skipped-too-big-size-object"`))
	for path, line := range map[string]string{
		"message": `{"stream":"s","message":` + string(quoted) + `}`,
		"logEvents.message": `{"messageType":"DATA_MESSAGE","owner":"123456789012","logGroup":"/aws/eks/shop/cluster","logStream":"kube-apiserver-audit-1f",` +
			`"subscriptionFilters":["audit"],"logEvents":[{"id":"3829","timestamp":1772359200123,"message":` + string(quoted) + `}]}`,
		"records.properties.log": `{"records":[{"operationName":"Microsoft.ContainerService/managedClusters/diagnosticLogs/Read","category":"kube-audit-admin",` +
			`"ccpNamespace":"5e","resourceId":"/SUBSCRIPTIONS/1/RESOURCEGROUPS/R/PROVIDERS/MICROSOFT.CONTAINERSERVICE/MANAGEDCLUSTERS/SHOP",` +
			`"properties":{"log":` + string(quoted) + `,"stream":"stdout","pod":"kube-apiserver-7"},"time":"2026-03-01T10:00:00.2Z"}]}`,
		"log": `{"log":` + eventOf(``) + `}`,
		"":    string(quoted),
	} {
		p := &Parser{}
		if path != "" {
			p.Path = strings.Split(path, ".")
		}
		if got, tally := parse(t, p, line); len(got) != 1 || got[0].User != "alice" || tally.Broken > 0 {
			t.Errorf("%s: %+v, %+v", path, got, tally)
		}
	}
}

// The id of an event is the same each time it comes, in any order of its members. Another event has another id, even if a client has
// given both one audit id.
func TestIDs(t *testing.T) {
	id := func(event string) string {
		got, _ := parse(t, &Parser{}, event)
		return got[0].ID
	}
	first := id(eventOf(``))
	again := strings.Replace(eventOf(``), `{`, `{"x":1,`, 1)
	if id(again) != first {
		t.Error("the same event has two ids")
	}
	for _, other := range []string{`"requestReceivedTimestamp":"2026-03-01T10:00:00.123457Z"`, `"requestURI":"/x"`, `"verb":"update"`,
		`"stageTimestamp":"2026-03-01T10:00:00.223457Z"`, `"auditID":"6f3"`, `"annotations":{"p/kubecdc-object3":"u-2 old 41"}`} {
		if id(eventOf(other)) == first {
			t.Errorf("an event with %s has the id of another", other)
		}
	}
}

// Users, groups and addresses are hashed where that is asked for, and all else is unchanged.
func TestHidden(t *testing.T) {
	hide := func(k Kind, value string) string { return string(k) + "#" + fmt.Sprint(len(value)) }
	got, _ := parse(t, &Parser{Hide: hide}, eventOf(`"impersonatedUser":{"username":"root","groups":["ops"]}`))
	text, _ := json.Marshal(got[0])
	for _, name := range []string{"alice", "root", "ops", "10.0.0.7"} {
		if strings.Contains(string(text), name) {
			t.Errorf("%s is in the error: %s", name, text)
		}
	}
	if r := got[0]; r.Who() != "users#4" || r.Groups[0] != "groups#3" || r.Addresses[0] != "addresses#8" {
		t.Errorf("%+v", r)
	}
}

// A record has the name of its object as it is, for any name. It is small, whatever a client sends.
func TestHostileEvents(t *testing.T) {
	for _, name := range hostile.Names() {
		ref, _ := json.Marshal(map[string]string{"resource": "roles", "name": name.Text, "apiGroup": "rbac.authorization.k8s.io"})
		got, tally := parse(t, &Parser{}, eventOf(`"objectRef":`+string(ref)))
		if len(got) != 1 || got[0].Name != name.Text {
			t.Errorf("%s: %+v, %+v", name.What, got, tally)
		}
	}
	for _, content := range hostile.Contents() {
		line := strings.Replace(eventOf(``), `{`, `{"requestObject":`+content.Text+`,`, 1)
		if got, tally := parse(t, &Parser{}, line); len(got) != 1 {
			t.Errorf("%s: %+v, %+v", content.What, got, tally)
		}
		parse(t, &Parser{}, content.Text) // and stops nothing
	}
	long, _ := json.Marshal(strings.Repeat("é", 100_000))
	many, _ := json.Marshal(strings.Split(strings.Repeat("g,", 100_000), ","))
	got, _ := parse(t, &Parser{Extra: []string{"*"}}, eventOf(`"userAgent":`+string(long)+`,"auditID":`+string(long)+`,"requestURI":"?fieldManager=`+
		strings.Repeat("m", 100_000)+`","user":{"username":`+string(long)+`,"groups":`+string(many)+`,"extra":{"k":`+string(many)+`}}`))
	if text, _ := json.Marshal(got[0]); len(text) > 10_000 {
		t.Errorf("a record of %d bytes", len(text))
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(eventOf(``)), "message")
	f.Add([]byte(gke), "")
	f.Add([]byte(`{"message":"{\"items\":[{\"auditID\":\"1\"}]}"}`), "message")
	f.Fuzz(func(t *testing.T, line []byte, path string) {
		p := &Parser{Path: strings.Split(path, "."), Extra: []string{"*"}}
		p.Parse(line, time.Time{}, func(r Record) {
			if _, err := json.Marshal(r); err != nil {
				t.Error(err)
			}
		})
	})
}

// One second of a core parses many times the 2,000 events that a busy cluster has in a second.
func BenchmarkParse(b *testing.B) {
	body := `,"responseObject":{"metadata":{"uid":"u-9","resourceVersion":"50"},"spec":{"x":"` + strings.Repeat("y", 8<<10) + `"}}`
	for name, line := range map[string]string{"Metadata": eventOf(``), "RequestResponse": eventOf(`"level":"x"` + body), "read": eventOf(`"verb":"get"`)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				(&Parser{}).Parse([]byte(line), time.Time{}, func(Record) {})
			}
		})
	}
}
