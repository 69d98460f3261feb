package apiclient

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"k8s.io/client-go/rest"

	"kubecdc/change"
)

// badRoad answers lists of objects 0 to 199 in pages, and fails a third of the requests: refused, reset, or cut in the middle.
type badRoad struct {
	random   *rand.Rand
	requests int
}

func (b *badRoad) RoundTrip(r *http.Request) (*http.Response, error) {
	b.requests++
	answer := func(code int, body io.Reader) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(body), Request: r, ProtoMajor: 1}, nil
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	var items []string
	for i := from; i < min(from+limit, 200); i++ {
		items = append(items, fmt.Sprintf(`{"metadata":{"name":"o%d","uid":"u%d","resourceVersion":"%d"}}`, i, i, i+1))
	}
	next := ""
	if from+limit < 200 {
		next = strconv.Itoa(from + limit)
	}
	page := fmt.Sprintf(`{"metadata":{"resourceVersion":"500","continue":"%s"},"items":[%s]}`, next, strings.Join(items, ","))
	switch b.random.IntN(9) {
	case 0:
		return answer(503, strings.NewReader("upstream connect error"))
	case 1:
		return nil, syscall.ECONNRESET
	case 2:
		return answer(200, io.MultiReader(strings.NewReader(page[:len(page)/2]), iotest.ErrReader(io.ErrUnexpectedEOF)))
	}
	return answer(200, strings.NewReader(page))
}

// A list of many pages ends although many requests fail: each page is read again by itself, and each object is visited once.
func TestAListEndsOnABadRoad(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			road := &badRoad{random: rand.New(rand.NewPCG(seed, 1))}
			c, err := New(&rest.Config{Host: "http://road", Transport: road, QPS: -1})
			must(t, err)
			s := change.NewStream(change.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap"}, "", "", "")
			n := 0
			version, err := c.Identities(t.Context(), s, "", NewPace(10), func(o *Object) {
				if o.Name != fmt.Sprint("o", n) {
					t.Errorf("seed %d: object %d is %s", seed, n, o.Name)
				}
				n++
			}, nil)
			if err != nil || version != "500" || n != 200 || road.requests > 80 {
				t.Errorf("seed %d: %d objects at %s by %d requests: %v", seed, n, version, road.requests, err)
			}
		})
	}
}
