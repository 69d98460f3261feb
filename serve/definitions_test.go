package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubecdc/change"
	"kubecdc/sinks"
)

// bodies counts the bytes of definitions that are read.
type bodies struct {
	sinks.Reader
	bytes atomic.Int64
}

func (b *bodies) Changes(ctx context.Context, q sinks.Query, visit func(*sinks.Logged) error) error {
	return b.Reader.Changes(ctx, q, func(l *sinks.Logged) error {
		if change.ResourceOf(l.Stream.ID()).ID() == crds {
			b.bytes.Add(int64(len(l.After) + len(l.Before)))
		}
		return visit(l)
	})
}

// The log has large definitions, and another object that changes again and again. A moment costs what differs in it, not all schemas.
func TestMomentsShareDefinitions(t *testing.T) {
	const definitions, size, moments = 20, 200_000, 60
	log, reader := sqliteLog(t)
	custom := change.NewStream(change.Resource{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition"}, "", "", "")
	next, version := change.Batch{Epoch: 1}, 0
	write := func(s *change.Stream, op change.Op, name, body string) {
		version++
		next.Changes = append(next.Changes, change.Change{Stream: s, Op: op, Name: name, UID: name, ResourceVersion: change.VersionOf(uint64(version)), Time: time.Now(),
			After: fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"name":%q,"uid":%q,"resourceVersion":"%d"},%s}`, s.Resource.Kind, s.Resource.APIVersion(), name, name, version, body)})
	}
	flush := func(streams ...*change.Stream) {
		next.Seq++
		next.Positions = nil
		for _, s := range streams {
			next.Positions = append(next.Positions, change.Position{Stream: s.ID(), ResourceVersion: change.VersionOf(uint64(version)), Time: time.Now()})
		}
		_, err := log.Write(t.Context(), &next)
		ok(t, err)
		next.Changes, next.Controls = nil, nil
	}
	namespaces := change.NewStream(change.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace"}, "", "", "")
	things := change.NewStream(change.Resource{Group: "example.com", Version: "v1", Plural: "things0", Kind: "Thing", Namespaced: true}, "", "", "")
	for _, s := range []*change.Stream{custom, namespaces, things} {
		next.Controls = append(next.Controls, change.SnapshotBeginControl(s.ID(), ""))
	}
	define := func(op change.Op, n, served int) {
		write(custom, op, fmt.Sprintf("things%d.example.com", n), fmt.Sprintf(`"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"things%d","kind":"Thing"},`+
			`"versions":[{"name":"v%d","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","description":%q}}}]}`, n, served, strings.Repeat("x", size)))
	}
	for n := range definitions {
		define(change.Create, n, 1)
	}
	write(namespaces, change.Create, "shop", `"spec":{}`)
	write(things, change.Create, "thing", `"spec":{}`)
	flush(custom, namespaces, things)
	var versions []int
	for range moments {
		write(namespaces, change.Update, "shop", `"spec":{}`)
		flush(custom, namespaces, things)
		versions = append(versions, version)
	}
	define(change.Update, 0, 2)
	flush(custom, namespaces, things)
	p, counted := &past{}, &bodies{Reader: reader}
	p.server = New(counted, nil, slog.New(slog.DiscardHandler))
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	get := func(version int) {
		if a := p.ours(fmt.Sprintf("/at/%d/api/v1/namespaces/shop", version), asObjects); a.code != http.StatusOK {
			t.Fatalf("%d %.200s", a.code, a.body)
		}
	}
	get(versions[0])
	before, first := heap(), counted.bytes.Swap(0)
	for _, version := range versions[1:] {
		get(version)
	}
	if after := heap(); after > before+before/2 {
		t.Errorf("one moment takes %d KB, and %d moments %d KB", before>>10, moments, after>>10)
	}
	if n := counted.bytes.Load(); first < definitions*size || n != 0 {
		t.Errorf("the first moment reads %d KB of definitions, and the others %d KB", first>>10, n>>10)
	}
	for where, want := range map[string]string{"": "v2", fmt.Sprint("/at/", versions[3]): "v1"} {
		if a := p.ours(where+"/apis/example.com", asObjects); !strings.Contains(string(a.body), `"example.com/`+want+`"`) {
			t.Errorf("%s: %s", where, a.body)
		}
	}
	runtime.KeepAlive(p)
}
