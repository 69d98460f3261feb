package serve

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/change"
	"kubecdc/test/servers"
)

// After a gap that could not be recovered, a watch has the list's changes in the order of versions. A client that was disconnected
// after any event goes on from there, and has the cluster's objects in the end.
func TestAWatchPassesAGap(t *testing.T) {
	p := newPast(t, "KUBECDC_RESOURCES=configmaps")
	configs := p.client.CoreV1().ConfigMaps("default")
	create := func(names ...string) {
		for _, name := range names {
			must[*corev1.ConfigMap](t)(configs.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
		}
	}
	remove := func(names ...string) {
		for _, name := range names {
			ok(t, configs.Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
	}
	create("a", "b", "c", "d", "e", "f")
	from := change.ResourceVersion(fmt.Sprint(must[int64](t)(p.kube.Revision(t.Context()))))
	create("g")
	upTo := func() {
		then := p.names(p.dynamic)
		servers.Await(t, "the log of all", func() (bool, error) { return slices.Equal(p.listed(t, ""), then), nil })
	}
	upTo()
	p.exporter.Kill()
	remove("b", "e")
	create("z", "y", "b", "x")
	remove("c", "y")
	must[*corev1.ConfigMap](t)(configs.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "v"}}, metav1.UpdateOptions{}))
	ok(t, p.kube.Compact(t.Context(), 0))
	ok(t, p.kube.RestartAPIServer(t.Context()))
	p.start()
	upTo()
	create("h")
	remove("x")
	upTo()

	all := p.events(t, from)
	if len(all) < 9 {
		t.Fatalf("%d events: %v", len(all), all)
	}
	for i, e := range append([]watched{{version: from}}, all...) {
		if i > 1 && e.version.Compare(all[i-2].version) < 0 {
			t.Errorf("event %d is older than the one before: %v", i, all)
		}
		got := p.events(t, e.version)
		again, rest := got[:max(0, len(got)-len(all)+i)], all[i:]
		if !slices.Equal(got[len(again):], rest) || slices.ContainsFunc(again, func(e watched) bool { return e.kind != "DELETED" }) {
			t.Errorf("after event %d, %v, a client gets\n%v, and not\n%v", i, e, got, rest)
		}
	}
	p.deletionsOfTheGap(t, from, all)
	have := map[string]change.ResourceVersion{}
	for _, o := range p.listed(t, from) {
		if name, version, _ := strings.Cut(o, "@"); strings.HasPrefix(name, "default/") {
			have[name] = change.ResourceVersion(version)
		}
	}
	for _, e := range all {
		if e.kind == "DELETED" {
			delete(have, "default/"+e.name)
		} else {
			have["default/"+e.name] = e.version
		}
	}
	var got []string
	for name, version := range have {
		got = append(got, name+"@"+string(version))
	}
	slices.Sort(got)
	if want := slices.DeleteFunc(p.listed(t, ""), func(o string) bool { return !strings.HasPrefix(o, "default/") }); !slices.Equal(got, want) {
		t.Errorf("after all events a client has %v, and there is %v", got, want)
	}
}

// deletionsOfTheGap demands that the last deletion that a list has found has the list's version. A client at any earlier version gets
// all deletions, even if none of its objects has changed in between. A client at the list's version gets none.
func (p *past) deletionsOfTheGap(t *testing.T, from change.ResourceVersion, all []watched) {
	var gap *change.Gap
	ok(t, p.reader().Controls(t.Context(), time.Time{}, nil, func(c *change.Control) error {
		if c.Type == change.ControlGap && !c.Gap.Complete {
			gap = c.Gap
		}
		return nil
	}))
	if gap == nil || from.Compare(gap.From) > 0 {
		t.Fatalf("there was no gap after %s: %+v", from, gap)
	}
	var deleted []watched
	for _, e := range all {
		if e.kind == "DELETED" && e.version.Compare(gap.To) <= 0 {
			deleted = append(deleted, e)
		}
	}
	if len(deleted) == 0 || deleted[len(deleted)-1].version != gap.To {
		t.Errorf("the deletions of the gap up to %s are %v", gap.To, deleted)
	}
	to, _ := strconv.ParseUint(string(gap.To), 10, 64)
	for version, want := range map[change.ResourceVersion]bool{change.VersionOf(to - 1): true, gap.To: false} {
		got := p.events(t, version)
		isDeletion := func(e watched) bool { return e.kind == "DELETED" && e.name == "c" && e.version.Compare(gap.To) <= 0 }
		if slices.ContainsFunc(got, isDeletion) != want {
			t.Errorf("of the deletions up to %s a client of %s gets %v", gap.To, version, got)
		}
	}
}

type watched struct {
	kind, name string
	version    change.ResourceVersion
}

// events returns the events of the namespace default after a version.
func (p *past) events(t *testing.T, from change.ResourceVersion) (all []watched) {
	a := p.ours("/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=2&resourceVersion="+string(from), asObjects)
	for _, line := range events(a.body) {
		e := watched{}
		_, err := fmt.Sscan(line, &e.kind, &e.name, &e.version)
		ok(t, err)
		all = append(all, e)
	}
	return all
}

// listed returns the ConfigMaps at a version, or now.
func (p *past) listed(t *testing.T, version change.ResourceVersion) (all []string) {
	path := "/api/v1/configmaps"
	if version != "" {
		path += "?resourceVersionMatch=Exact&resourceVersion=" + string(version)
	}
	var list corev1.ConfigMapList
	ok(t, json.Unmarshal(p.ours(path, asObjects).body, &list))
	for _, o := range list.Items {
		all = append(all, o.Namespace+"/"+o.Name+"@"+o.ResourceVersion)
	}
	slices.Sort(all)
	return all
}
