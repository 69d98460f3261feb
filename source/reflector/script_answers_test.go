package reflector_test

import (
	"encoding/json"
	"fmt"
	"strings"
)

// uid spells a uid from one letter.
func uid(letter string) string {
	return fmt.Sprintf("%s-0000-4000-8000-000000000000", strings.Repeat(fmt.Sprintf("%x", letter[0])[1:], 8)) + ""
}

// obj is an object "name uid version".
func obj(text string) string {
	f := strings.Fields(text)
	return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":%q},"data":{"k":"v%s"}}`,
		f[0], uid(f[1]), f[2], f[2])
}

func listed(version, next string, objects ...string) string {
	var items []string
	for _, o := range objects {
		items = append(items, obj(o))
	}
	return fmt.Sprintf(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":%q,"continue":%q},"items":[%s]}`,
		version, next, strings.Join(items, ","))
}

// listedItemsFirst is a list as kube-apiserver sends it of custom resources: its members are sorted.
func listedItemsFirst(version, next string, objects ...string) string {
	var l struct {
		Items    json.RawMessage `json:"items"`
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(listed(version, next, objects...)), &l); err != nil {
		panic(err)
	}
	text, _ := json.Marshal(l)
	return string(text)
}

func added(o string) string { return `{"type":"ADDED","object":` + obj(o) + "}\n" }

func modified(o string) string { return `{"type":"MODIFIED","object":` + obj(o) + "}\n" }

func deleted(o string) string { return `{"type":"DELETED","object":` + obj(o) + "}\n" }

func bookmark(version string) string {
	return `{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"` + version + `"}}}` + "\n"
}

// gone is a 410, as the body of a status. With a token it offers to go on inconsistently.
func gone(token string) string {
	meta := "{}"
	if token != "" {
		meta = `{"continue":"` + token + `"}`
	}
	return `{"kind":"Status","apiVersion":"v1","metadata":` + meta + `,"status":"Failure","message":"too old","reason":"Expired","code":410}`
}

func errorEvent(status string) string { return `{"type":"ERROR","object":` + status + "}\n" }

func failure(code int, reason string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":%q,"code":%d}`, reason, code)
}

// holds are the two answers to a stream that asks whether the server has its history. newest is "name uid version".
func holds(version, newest string) []step {
	f := strings.Fields(newest)
	return []step{
		{want: "list metadata limit=1", body: listed(version, "", newest)},
		{want: "list metadata rv=" + f[2] + " match=Exact fields=metadata.name=" + f[0], body: listed(f[2], "", newest)},
	}
}
