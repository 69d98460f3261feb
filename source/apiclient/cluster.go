package apiclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"kubecdc/internal/wait"
)

// An address may lead to another cluster: by a switch of DNS or of a load balancer, or because the cluster was made again. No
// answer of the other cluster says anything of the first one: a list without an object, a 404, a 410, an event. So once a client
// knows its cluster's uid, each answer has to show its cluster. Otherwise it is used only after the uid of namespace kube-system
// was read.
//
// An answer shows its cluster by a header, the uid of the FlowSchema that applies to the request. kube-apiserver sets it in all
// answers but 401 (https://kubernetes.io/docs/concepts/cluster-administration/flow-control/#diagnostics). The client knows a
// FlowSchema's uid once it has come in one answer with the uid of namespace kube-system. The header is missing if priority and
// fairness are off, or a proxy drops it. The header is empty while an API server starts. Its FlowSchema is unknown if the read of
// the namespace had another one.
//
// Without a known FlowSchema the read of the namespace begins after the answer began: before, the address may have led elsewhere.
// With HTTP/2 both come over one connection, so they are of one cluster. A proxy that takes each request to a cluster of its
// choice would have to change its mind twice in between.
//
// The reads are shared: all answers that begin while one read is under way wait for the next. A read that fails proves nothing.
// So the answer is not used, and the request fails as if it had not been answered.

// OtherClusterError reports that the address leads to another cluster. From then on the client, and all clients made from it,
// fail with this error.
type OtherClusterError struct {
	Host        string
	Known, Here string // uids of namespace kube-system
}

func (e *OtherClusterError) Error() string {
	return fmt.Sprintf("the API server at %s is that of another cluster now: its namespace kube-system has the uid %s, that of "+
		"the cluster "+
		"which is exported has %s. Nothing that it answered was used: lead the address back to the first cluster and start "+
		"again, "+
		"or give the other one a KUBECDC_CLUSTER and a log of its own", e.Host, e.Here, e.Known)
}

// cluster is the cluster that a client reads. All clients that are made from it share the cluster.
type cluster struct {
	mu    sync.Mutex
	uid   string             // the uid of namespace kube-system, or empty if it is not known and nothing is compared
	other *OtherClusterError // nil: none was found
	flows map[string]bool    // the uids of its FlowSchemas that are known
	found chan struct{}      // is closed when another one was found

	followed map[string]map[string]int64 // by collection and name (followed.go)

	newest      *Client // with the newest connections (Client.Fresh)
	newestSince time.Time
}

// Expect names the expected cluster by the uid of its namespace kube-system. The client, and all made from it, then use no answer
// of another cluster.
func (c *Client) Expect(uid string) {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	c.cluster.uid = uid
}

// OtherCluster waits until the client finds another cluster, and returns the error that says so. It returns nil if the context
// ends before.
func (c *Client) OtherCluster(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.cluster.found:
		_, err := c.cluster.expected()
		return err
	}
}

func (s *cluster) expected() (uid string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.other != nil {
		return s.uid, s.other
	}
	return s.uid, nil
}

// compare returns an error if the uid is not the expected one. The FlowSchema's uid came in the same answer.
func (s *cluster) compare(host, uid, flowSchema string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if uid != s.uid && s.other == nil {
		s.other = &OtherClusterError{Host: host, Known: s.uid, Here: uid}
		close(s.found)
	}
	if s.other != nil {
		return s.other
	}
	if len(s.flows) >= mostFlows {
		clear(s.flows)
	}
	s.flows[flowSchema] = flowSchema != ""
	return nil
}

// mostFlows is far above the number of FlowSchemas that apply to one user. They may be made again.
const mostFlows = 100

// shows reports whether an answer is of the expected cluster, and no other cluster was found.
func (s *cluster) shows(from origin) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.other == nil && s.flows[from.flowSchema]
}

// origin is what an answer tells of where it comes from.
type origin struct {
	multiplexed bool   // its connection takes other requests meanwhile (HTTP/2)
	flowSchema  string // the uid of the FlowSchema that applies, or empty if that is not known
}

func originOf(resp *http.Response) origin {
	return origin{resp.ProtoMajor > 1, resp.Header.Get("X-Kubernetes-PF-FlowSchema-UID")}
}

// checks are the reads of the uid over the connections of one client.
type checks struct {
	mu        sync.Mutex
	running   *check
	next      *check    // begins when the running one has ended
	checkedAt time.Time // when the last check began that found the cluster, or zero if a connection was made since

	connections int // made so far

	answers map[net.Conn]time.Time // when the newest request was made that was answered over each (connection.go)
}

type check struct {
	done chan struct{}
	err  error
}

// join returns a check that has not begun yet.
func (s *checks) join(do func() error) *check {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := &check{done: make(chan struct{})}
	switch {
	case s.running == nil:
		s.running = k
		go s.run(k, do)
	case s.next == nil:
		s.next = k
	default:
		k = s.next
	}
	return k
}

func (s *checks) run(k *check, do func() error) {
	for k != nil {
		began := time.Now()
		k.err = do()
		close(k.done)
		s.mu.Lock()
		if k.err == nil {
			s.checkedAt = began
		}
		k, s.next = s.next, nil
		s.running = k
		s.mu.Unlock()
	}
}

func (s *checks) within(d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.checkedAt) < d
}

// SameCluster returns nil if the cluster is the expected one now. If it is another one, the error is an *OtherClusterError.
func (c *Client) SameCluster(ctx context.Context) error {
	uid, err := c.cluster.expected()
	if uid == "" || err != nil {
		return err
	}
	k := c.checks.join(c.check)
	select {
	case <-k.done:
		return k.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Loosely returns a client that checks the cluster once in a while and for each new connection, not for each answer. Its user
// calls SameCluster before anything follows from the answers. It is for many small reads, one after another.
func (c *Client) Loosely() *Client {
	loose := *c
	loose.checkedFor = looseness
	return &loose
}

const looseness = time.Second

// Strictly returns a client that undoes Loosely: it checks the cluster after each answer.
func (c *Client) Strictly() *Client {
	strict := *c
	strict.checkedFor = 0
	return &strict
}

// get makes one request, as ask does, and checks the cluster that the answer came from. Servers end connections all the time
// (GOAWAY). If a connection was made during the request, its answer proves nothing, and get makes the request again.
func (c *Client) get(ctx context.Context, path string, query url.Values, accept string) (_ io.ReadCloser, from origin,
	err error) {
	for try := 1; ; try++ {
		body, from, err := c.ask(ctx, path, query, accept)
		notChecked := c.checkAnswer(ctx, from, err)
		if notChecked == nil {
			return body, from, err
		}
		if body != nil {
			_ = body.Close()
		}
		if try == checkTries || !errors.Is(notChecked, errMoved) {
			return nil, from, notChecked
		}
	}
}

// checkAnswer checks the cluster that an answer came from. The check of a multiplexed connection (HTTP/2) goes over the same
// one, unless that has ended.
func (c *Client) checkAnswer(ctx context.Context, from origin, answer error) error {
	if saysNothing(answer) || c.cluster.shows(from) || c.checkedFor > 0 && c.checks.within(c.checkedFor) {
		return nil
	}
	connections := c.checks.made()
	if err := c.SameCluster(ctx); err != nil {
		return err
	}
	if uid, _ := c.cluster.expected(); uid != "" && from.multiplexed && c.checks.made() != connections {
		return errMoved
	}
	return nil
}

// saysNothing reports an error from which nothing follows: there was no answer, or the server has no time, or it does not know
// who asks.
func saysNothing(answer error) bool {
	code := StatusCode(answer)
	return answer != nil && (code == 0 || code == http.StatusUnauthorized || IsOverload(answer))
}

// KubeSystem is the path of the namespace whose uid identifies the cluster.
const KubeSystem = "/api/v1/namespaces/kube-system"

// checkTimeout limits a check with its tries. A check needs more than one try only if the server has no time.
const (
	checkTimeout = 20 * time.Second
	checkTries   = 4
)

func (c *Client) check() error {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	for try := 1; ; try++ {
		began := time.Now()
		raw, from, err := c.askAll(ctx, KubeSystem)
		if err == nil {
			c.road.record(time.Since(began))
			return c.compareWith(raw, from)
		}
		if try == checkTries || !IsOverload(err) || IsConnectionEnd(err) ||
			wait.For(ctx, max(RetryAfter(err), 100*time.Millisecond)) != nil {
			return c.notChecked(err)
		}
	}
}

// askAll reads one small document, from any cluster that answers.
func (c *Client) askAll(ctx context.Context, path string) ([]byte, origin, error) {
	body, from, err := c.ask(ctx, path, nil, acceptJSON)
	if err != nil {
		return nil, from, err
	}
	defer body.Close()
	raw, err := io.ReadAll(io.LimitReader(body, 1<<20))
	return raw, from, err
}

func (c *Client) compareWith(raw []byte, from origin) error {
	o, err := ParseObject(raw)
	if err != nil {
		return c.notChecked(err)
	}
	return c.cluster.compare(c.Host(), o.UID, from.flowSchema)
}

// notCheckedError is a refused check. It does not refuse the request itself.
type notCheckedError struct {
	error
	code int32
}

// notChecked returns the error of a check that failed.
func (c *Client) notChecked(err error) error {
	const tried = "make sure that the API server at %s is still that of the exported cluster (GET %s)"
	if code := StatusCode(err); code != 0 && IsRefused(err) {
		hint := ""
		if code != http.StatusUnauthorized {
			hint = "; grant get on namespace kube-system again, or start again: the cluster is then known by its CA"
		}
		return notCheckedError{fmt.Errorf(tried+": %s%s", c.Host(), KubeSystem, Reason(err), hint), code}
	}
	return fmt.Errorf(tried+": %w", c.Host(), KubeSystem, err)
}

// errMoved reports an answer that came over a connection which may be gone: another one was made since, which may lead elsewhere.
var errMoved = errors.New("a new connection was made while an answer came over another one, which may have led to another " +
	"cluster")

func (s *checks) noticeConnections(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if used, asked := ctx.Value(connectionKey{}).(*Connection); asked {
			used.Conn = info.Conn
		}
		if info.Reused {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.connections++
		s.checkedAt = time.Time{}
	}})
}

func (s *checks) made() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections
}
