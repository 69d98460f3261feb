package reflector_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/reflector"
	"kubecdc/test/servers"
)

// leisurelyServer needs its time for each object, and ends a list after a minute, as kube-apiserver does.
type leisurelyServer struct {
	objects int
	takes   func(n int) time.Duration // object n
	limits  []string                  // the limits of the lists that it was asked for
	ended   int                       // before their last object
}

func (s *leisurelyServer) RoundTrip(r *http.Request) (*http.Response, error) {
	reader, writer := io.Pipe()
	if r.URL.Query().Get("watch") != "" {
		go func() {
			<-r.Context().Done()
			writer.Close()
		}()
	} else {
		s.limits = append(s.limits, r.URL.Query().Get("limit"))
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		go func() { writer.CloseWithError(s.list(writer, from, min(from+limit, s.objects))) }()
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: reader, Request: r, ProtoMajor: 1,
		ProtoMinor: 1}, nil
}

func (s *leisurelyServer) list(w io.Writer, from, to int) error {
	next := ""
	if to < s.objects {
		next = strconv.Itoa(to)
	}
	head, tail, _ := strings.Cut(listed("100000", next), "[")
	fmt.Fprint(w, head, "[")
	began := time.Now()
	for n := from; n < to; n++ {
		if time.Sleep(s.takes(n)); time.Since(began) >= time.Minute {
			s.ended++
			return errors.New("stream error: stream ID 5; INTERNAL_ERROR; received from peer")
		}
		if n > from {
			fmt.Fprint(w, ",")
		}
		fmt.Fprint(w, obj(fmt.Sprintf("a%05d %d %d", n, n, n+1)))
	}
	_, err := fmt.Fprint(w, tail)
	return err
}

// A page that takes longer than the API server allows is asked for in parts. Where the objects are small again, it is asked for in
// larger parts.
func TestPagesFitIntoTheServersTimeout(t *testing.T) {
	server := &leisurelyServer{objects: 4000, takes: func(n int) time.Duration {
		if n < 300 {
			return 700 * time.Millisecond
		}
		return 5 * time.Millisecond
	}}
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		l.moved = make(chan struct{})
		options := reflector.DefaultOptions()
		options.WatchTimeout = time.Hour
		_, stop := startOn(t, &rest.Config{Host: "http://script", Transport: server, QPS: -1}, options, l, &quietObserver{})
		time.Sleep(20 * time.Minute)
		_ = stop()
		if l.position != "100000" || len(l.changes) != server.objects {
			t.Errorf("after 20 minutes %d of %d objects are listed, by pages of %v", len(l.changes), server.objects, server.limits)
		}
	})
	last := slices.DeleteFunc(slices.Clone(server.limits), func(limit string) bool { return len(limit) < 2 }) // what comes after the list
	if server.ended > 2 || len(last) > 40 || last[len(last)-1] != "500" {
		t.Errorf("the server has ended %d pages; pages of %v", server.ended, server.limits)
	}
}

// A real API server gives a list eight seconds, over a slow network. A continue token takes another limit, and each object is listed
// once.
func TestSlowPagesFitIntoARealServersTimeout(t *testing.T) {
	servers.Slow(t)
	k := ownKubernetes(t, servers.KubernetesOptions{APIServerFlags: []string{"--request-timeout=8s"}})
	const objects, size, perSecond = 600, 20_000, 400_000
	core := kubernetes.NewForConfigOrDie(k.Config).CoreV1().ConfigMaps("default")
	for n := range objects {
		m := configMap(fmt.Sprintf("large-%03d", n), nil)
		m.Data["pad"] = strings.Repeat("x", size)
		must[*corev1.ConfigMap](t)(core.Create(t.Context(), m, metav1.CreateOptions{}))
	}
	proxy, err := servers.NewProxy(k.Address)
	mustDo(t, err)
	defer proxy.Close()
	proxy.Slow(perSecond)
	l := newLedger()
	options := testOptions()
	options.PageSize = 500
	startStream(t, k.ConfigAt(proxy.Address), change.NewStream(configMaps, "default", "", ""), options, l, &quietObserver{})
	l.await(t, "the list", func() bool { return l.position != "" })
	listed := map[string]int{}
	for _, c := range l.changes {
		listed[c.Name]++
	}
	for n := range objects {
		if name := fmt.Sprintf("large-%03d", n); listed[name] != 1 {
			t.Errorf("%s is in the log %d times", name, listed[name])
		}
	}
}
