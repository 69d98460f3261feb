package discovery_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/discovery"
)

// registry is an API server that stops showing a resource. answers has its answer to each request for what may register the resource:
// STATUS, or STATUS and body, by the end of the path.
type registry struct {
	hidden  atomic.Bool
	answers map[string]string
}

const shownGroup = `{"metadata":{"name":"example.com"},"versions":[{"version":"v1","resources":[{"resource":"widgets",
	"responseKind":{"kind":"Widget"},"scope":"Namespaced","verbs":["list","watch"]}]}]}`

func (s *registry) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := 403, failure(403, "Forbidden")
	switch path := r.URL.Path; {
	case path == "/api", path == "/apis" && s.hidden.Load():
		status, body = 200, `{"kind":"APIGroupDiscoveryList","items":[]}`
	case path == "/apis":
		status, body = 200, `{"kind":"APIGroupDiscoveryList","items":[`+shownGroup+`]}`
	default:
		for end, answer := range s.answers {
			if strings.HasSuffix(path, end) && !r.URL.Query().Has("watch") {
				text, rest, _ := strings.Cut(answer, " ")
				_, _ = fmt.Sscan(text, &status)
				if body = rest; body == "" {
					body = failure(status, http.StatusText(status))
				}
			}
		}
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
}

var notThere = "404 " + strings.Replace(failure(404, "NotFound"), `"code"`, `"details":{"name":"widgets.example.com"},"code"`, 1)

// list is a list of names. After a name comes the label that says who made an APIService.
func list(names ...string) string {
	var items []string
	for _, n := range names {
		name, label, _ := strings.Cut(n, "=")
		items = append(items, `{"metadata":{"name":"`+name+`","labels":{"kube-aggregator.kubernetes.io/automanaged":"`+label+`"}}}`)
	}
	return `200 {"kind":"List","metadata":{"resourceVersion":"1"},"items":[` + strings.Join(items, ",") + `]}`
}

// A resource is removed only if nothing registers it, at any time. If that can't be read, the missing right is named.
func TestAResourceThatIsNotShownIsRemovedOnlyWhereThatIsKnown(t *testing.T) {
	const crd, services, collection = "/widgets.example.com", "/apiservices", "/v2/widgets"
	others, own := list("v1.=onstart", "v1.apps=onstart", "v1.other.example.com"), list("v1.apps=onstart", "v2.example.com=true")
	aggregated, onStart := list("v2.example.com"), list("v2.example.com=onstart")
	for name, test := range map[string]struct {
		answers map[string]string
		doubt   string // empty: it is removed
	}{
		"the CRD may not be read":                      {map[string]string{crd: "403", services: others}, "get customresourcedefinitions.apiextensions.k8s.io"},
		"the CRD is there":                             {map[string]string{crd: "200 {}", services: others}, "registered"},
		"the API server is not well":                   {map[string]string{crd: "500", services: others}, "not known"},
		"a 404 that does not speak of the CRD":         {map[string]string{crd: "404", services: others}, "no API server that has CRDs"},
		"API services may not be read":                 {map[string]string{crd: notThere, services: "403"}, "list apiservices.apiregistration.k8s.io"},
		"nothing registers it":                         {map[string]string{crd: notThere, services: others}, ""},
		"its group is served, and it is not":           {map[string]string{crd: notThere, services: own, collection: "404"}, ""},
		"an aggregated server's, which lacks it":       {map[string]string{crd: notThere, services: aggregated, collection: "404"}, "outlive its APIService"},
		"it is built in":                               {map[string]string{crd: notThere, services: onStart, collection: "404"}, "it is built in"},
		"its group's server is away":                   {map[string]string{crd: notThere, services: own, collection: "503"}, "not known"},
		"its group is served, it may not be listed":    {map[string]string{crd: notThere, services: own, collection: "403"}, "list widgets.example.com"},
		"its group is served, and it is, in another v": {map[string]string{crd: notThere, services: own, collection: list()}, "registered"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &registry{answers: test.answers}
				api := must[*discovery.Server](t)(discovery.Connect(&rest.Config{Host: "http://registry", Transport: server, QPS: -1}))
				patterns := must[[]discovery.Pattern](t)(discovery.ParsePatterns([]string{"widgets.example.com"}))
				var last atomic.Pointer[discovery.Selection]
				ctx, cancel := context.WithCancel(t.Context())
				go api.Follow(ctx, patterns, time.Minute, slog.New(slog.DiscardHandler), func(s discovery.Selection) { last.Store(&s) })
				time.Sleep(time.Minute)
				server.hidden.Store(true)
				time.Sleep(time.Hour)
				cancel()
				synctest.Wait()
				s := last.Load()
				if isSelected := len(s.Resources) == 1; isSelected != (test.doubt != "") {
					t.Fatalf("the selection is %v", s.Resources)
				}
				if test.doubt == "" {
					return
				}
				if doubt := s.Doubt(s.Resources[0]); doubt == nil || !strings.Contains(doubt.Error(), test.doubt) {
					t.Errorf("the doubt is %v, not of %q", doubt, test.doubt)
				}
				fate, err := s.Fate(t.Context(), change.ParseStream("widgets.example.com@shop"))
				if fate != discovery.FateUnsure || err == nil {
					t.Errorf("the fate of a stream that is not read is %v, %v", fate, err)
				}
			})
		})
	}
}

// A user with rights in a namespace alone gets a 403 elsewhere, and asks there.
func TestARemovalIsSeenByAUserOfOneNamespace(t *testing.T) {
	server := &registry{answers: map[string]string{"/widgets.example.com": notThere, "/apiservices": list("v2.example.com=true"), "/v2/widgets": "403",
		"/v2/namespaces/shop/widgets": "404"}}
	server.hidden.Store(true)
	api := must[*discovery.Server](t)(discovery.Connect(&rest.Config{Host: "http://registry", Transport: server, QPS: -1}))
	api.Namespaces = []string{"shop"}
	selections := make(chan discovery.Selection)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go api.Follow(ctx, nil, time.Minute, slog.New(slog.DiscardHandler), func(s discovery.Selection) {
		select {
		case selections <- s:
		case <-ctx.Done():
		}
	})
	s := <-selections
	if fate, err := s.Fate(ctx, change.ParseStream("widgets.example.com@shop")); fate != discovery.FateRemoved || err != nil {
		t.Errorf("the fate of a removed resource is %v, %v", fate, err)
	}
}

// The server of a resource decides what becomes of it when nothing registers it any more. If that server is not known, the group's name
// decides.
func TestOnlyWhatHadACRDIsRemoved(t *testing.T) {
	for name, test := range map[string]struct {
		stream string
		before string // APIServices while it was served, empty if no exporter ran, or "noted" if an earlier one recorded that it is aggregated
		fate   discovery.Fate
	}{
		"a CRD, gone unseen":                        {"widgets.example.com", "", discovery.FateRemoved},
		"an aggregated server's, gone unseen":       {"widgets.example.com", "noted", discovery.FateUnsure},
		"a CRD":                                     {"widgets.example.com", list("v1.example.com=true"), discovery.FateRemoved},
		"an aggregated server's":                    {"widgets.example.com", list("v1.example.com"), discovery.FateUnsure},
		"built in":                                  {"poddisruptionbudgets.policy", "", discovery.FateUnsure},
		"built in, with a dot":                      {"ingresses.networking.k8s.io", "", discovery.FateUnsure},
		"perhaps built in, by another release":      {"gadgets.new.k8s.io", "", discovery.FateUnsure},
		"a group of Kubernetes' that has no CRD":    {"widgets.example.com", list("v1.example.com=onstart"), discovery.FateUnsure},
		"a CRD beside an aggregated server's group": {"widgets.example.com", list("v1.example.com=true", "v1.other.com"), discovery.FateRemoved},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stream := change.ParseStream(change.StreamID(test.stream))
				gone := strings.Replace(notThere, "widgets.example.com", test.stream, 1)
				server := &registry{answers: map[string]string{"/" + test.stream: gone, "/apiservices": list("v1.=onstart")}}
				api := must[*discovery.Server](t)(discovery.Connect(&rest.Config{Host: "http://registry", Transport: server, QPS: -1}))
				switch test.before {
				case "noted":
					api.RecordAggregated(stream.Resource.Group)
					fallthrough
				case "":
					server.hidden.Store(true)
				default:
					server.answers["/apiservices"] = test.before
				}
				patterns := must[[]discovery.Pattern](t)(discovery.ParsePatterns([]string{"*"}))
				var last atomic.Pointer[discovery.Selection]
				ctx, cancel := context.WithCancel(t.Context())
				defer synctest.Wait()
				defer cancel()
				go api.Follow(ctx, patterns, time.Minute, slog.New(slog.DiscardHandler), func(s discovery.Selection) { last.Store(&s) })
				time.Sleep(time.Minute)
				synctest.Wait()
				server.answers["/apiservices"] = list("v1.=onstart")
				server.hidden.Store(true)
				time.Sleep(time.Hour)
				synctest.Wait()
				if fate, err := last.Load().Fate(ctx, stream); fate != test.fate {
					t.Errorf("the fate is %v, %v, want %v", fate, err, test.fate)
				}
			})
		})
	}
}
