package recovery

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/apiclient"
)

// convertingServer takes its time for each object of a list, and ends a list after a minute, as kube-apiserver does.
type convertingServer struct {
	objects   int
	takes     time.Duration
	converted []int // how often each object
}

func (s *convertingServer) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(code int, body string) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
			Body: io.NopCloser(strings.NewReader(body))}, nil
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	var items []string
	for began, n := time.Now(), from; n < min(from+limit, s.objects); n++ {
		s.converted[n]++
		if time.Sleep(s.takes); time.Since(began) >= time.Minute {
			return answer(http.StatusGatewayTimeout, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Timeout","code":504}`)
		}
		items = append(items, fmt.Sprintf(`{"metadata":{"name":"w%04d","namespace":"default","uid":"u%d","resourceVersion":"15"}}`, n, n))
	}
	next := ""
	if from+limit < s.objects {
		next = strconv.Itoa(from + limit)
	}
	return answer(http.StatusOK, fmt.Sprintf(`{"metadata":{"resourceVersion":"20","continue":%q},"items":[%s]}`, next, strings.Join(items, ",")))
}

// A list of the past that takes longer than the server allows is asked for in parts. No object is converted more than twice.
func TestPastListsFitIntoTheServersTimeout(t *testing.T) {
	resource := change.Resource{Group: "example.com", Version: "v1", Plural: "widgets", Kind: "Widget", Namespaced: true}
	for _, takes := range []time.Duration{time.Millisecond, 30 * time.Millisecond, 300 * time.Millisecond, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			server := &convertingServer{objects: 2000, takes: takes, converted: make([]int, 2000)}
			client, err := apiclient.New(&rest.Config{Host: "http://script", Transport: server, QPS: -1})
			must(t, err)
			h := NewExactReads(client, change.NewStream(resource, "", "", ""), false, nil, false, nil, nil)
			listed, began := 0, time.Now()
			err = h.Names(t.Context(), "", 20, func(apiclient.Object) error { listed++; return nil })
			if err != nil || listed != server.objects {
				t.Errorf("%s an object: %d of %d were listed: %v", takes, listed, server.objects, err)
			}
			for n, times := range server.converted {
				if times > 2 {
					t.Errorf("%s an object: object %d is converted %d times", takes, n, times)
				}
			}
			if all := time.Duration(server.objects) * takes; time.Since(began) > all+3*time.Minute {
				t.Errorf("%s an object: the list takes %s, and all objects %s", takes, time.Since(began), all)
			}
		})
	}
}
