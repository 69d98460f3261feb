package serve

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/internal/web"
)

// tokenAsProtocol is how a page sends a token.
func tokenAsProtocol(token string) string {
	return "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token))
}

// upgrade asks for a WebSocket, and returns the answer without its body.
func upgrade(t *testing.T, base *url.URL, secure *tls.Config, path string, header http.Header) *http.Response {
	t.Helper()
	var conn net.Conn
	if base.Scheme == "https" {
		conn = must[*tls.Conn](t)(tls.Dial("tcp", base.Host, secure))
	} else {
		conn = must[net.Conn](t)(net.Dial("tcp", base.Host))
	}
	t.Cleanup(func() { conn.Close() })
	r := must[*http.Request](t)(http.NewRequest(http.MethodGet, base.String()+path, nil))
	r.Header = header.Clone()
	for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
		r.Header.Set(name, value)
	}
	ok(t, r.Write(conn))
	return must[*http.Response](t)(http.ReadResponse(bufio.NewReader(conn), r))
}

// framesOf returns the events that a page gets by a WebSocket.
func framesOf(t *testing.T, base *url.URL, secure *tls.Config, path, token string) (all []string) {
	t.Helper()
	c := must[*websocket.Config](t)(websocket.NewConfig("ws"+strings.TrimPrefix(base.String(), "http")+path, "https://headlamp.example"))
	c.Protocol = []string{tokenAsProtocol(token), "base64.binary.k8s.io"}
	c.TlsConfig = secure
	socket := must[*websocket.Conn](t)(websocket.DialConfig(c))
	defer socket.Close()
	for {
		var text string
		if err := websocket.Message.Receive(socket, &text); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
}

// A browser watches by WebSockets, with the same answers as the API server's.
func (p *past) sockets(t *testing.T) {
	from := p.logged(t)
	settings, authority := certificate(t)
	process, log := p.serving(t, append(settings, "KUBECDC_HTTP_ACCESS=kubernetes", "KUBECONFIG="+p.kube.Kubeconfig)...)
	real, token := must[*url.URL](t)(url.Parse(p.kube.API.URL)), p.kube.Config.BearerToken
	toReal, toLog := must[*tls.Config](t)(rest.TLSConfigFor(p.kube.Config)), &tls.Config{RootCAs: x509.NewCertPool()}
	toLog.RootCAs.AppendCertsFromPEM(authority)
	path := fmt.Sprintf("/api/v1/configmaps?watch=1&timeoutSeconds=2&resourceVersion=%d", from)
	want := framesOf(t, real, toReal, path, token)
	eventsOf := func(frames []string) []string { return events([]byte(strings.Join(frames, ""))) }
	if got := framesOf(t, log, toLog, path, token); !slices.Equal(eventsOf(got), eventsOf(want)) || len(got) != len(want) || len(want) == 0 {
		t.Errorf("%d frames, and the API server sends %d:\n%s\n%s", len(got), len(want), got, want)
	}
	const page, protocol, origin = "https://headlamp.example", "Sec-WebSocket-Protocol", "Origin"
	bearer, asProtocol := "Bearer "+token, tokenAsProtocol(token)
	for what, header := range map[string]http.Header{
		"a header":                     {origin: {page}, "Authorization": {bearer}},
		"no origin":                    {"Authorization": {bearer}},
		"the origin null":              {origin: {"null"}, "Authorization": {bearer}},
		"a subprotocol":                {origin: {page}, protocol: {asProtocol + ", v1"}},
		"a subprotocol in two lines":   {origin: {page}, protocol: {"v1", asProtocol}},
		"two subprotocols":             {origin: {page}, protocol: {asProtocol + ", v1, v2"}},
		"only the token":               {origin: {page}, protocol: {asProtocol}},
		"a wrong token":                {origin: {page}, protocol: {tokenAsProtocol("wrong") + ", v1"}},
		"a token that is none":         {origin: {page}, protocol: {"base64url.bearer.authorization.k8s.io.%%, v1"}},
		"a subprotocol and a password": {origin: {page}, protocol: {asProtocol + ", v1"}, "Authorization": {"Basic YTpi"}},
	} {
		got, want := upgrade(t, log, toLog, path, header), upgrade(t, real, toReal, path, header)
		if got.StatusCode != want.StatusCode || got.Header.Get(protocol) != want.Header.Get(protocol) {
			t.Errorf("%s: %s with the protocol %q, and the API server %s with %q", what, got.Status, got.Header.Get(protocol), want.Status, want.Header.Get(protocol))
		}
		if strings.Contains(fmt.Sprint(got.Header), asProtocol) {
			t.Errorf("%s: the answer has the token", what)
		}
	}
	password := "Basic " + base64.StdEncoding.EncodeToString([]byte("any:"+token))
	_, open := p.serving(t)
	for what, x := range map[string]struct {
		server *url.URL
		header http.Header
		want   int
	}{
		"another page with a remembered password": {log, http.Header{origin: {page}, "Authorization": {password}}, http.StatusForbidden},
		"no token":                           {log, http.Header{origin: {page}, protocol: {"v1"}}, http.StatusUnauthorized},
		"a page of the server":               {log, http.Header{origin: {log.String()}, "Authorization": {password}}, http.StatusSwitchingProtocols},
		"without a login, any page":          {open, http.Header{origin: {page}}, http.StatusForbidden},
		"without a login, a page in a frame": {open, http.Header{origin: {"null"}}, http.StatusForbidden},
		"without a login, no page":           {open, http.Header{}, http.StatusForbidden},
		"without a login, a local page":      {open, http.Header{origin: {"http://localhost:3000"}}, http.StatusSwitchingProtocols},
	} {
		if got := upgrade(t, x.server, toLog, path, x.header); got.StatusCode != x.want {
			t.Errorf("%s: %s", what, got.Status)
		}
	}
	last := upgrade(t, log, toLog, "/api/v1/configmaps?watch=1", http.Header{origin: {page}, "Authorization": {bearer}})
	ok(t, process.Signal(os.Interrupt))
	_, _ = io.Copy(io.Discard, last.Body) // ends with the server
}

// onlyToken allows everything to the bearer of one token.
type onlyToken string

func (a onlyToken) Allow(_ context.Context, token string, _ web.Asked) error {
	if token != string(a) {
		return web.ErrUnknownToken
	}
	return nil
}

// A watch whose token is a subprotocol is reviewed by that token, as long as it lasts.
func TestASocketKeepsItsToken(t *testing.T) {
	log, reader := sqliteLog(t)
	b := change.Batch{Epoch: 1, Seq: 1, Controls: []change.Control{change.SnapshotBeginControl(pods.ID(), "")},
		Positions: []change.Position{{Stream: pods.ID(), ResourceVersion: "9", Time: time.Now()}},
		Changes: []change.Change{{Stream: pods, Op: change.Create, Namespace: "default", Name: "a", UID: "u", ResourceVersion: "5", Time: time.Now(),
			After: []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"default"}}`)}}}
	_, err := log.Write(t.Context(), &b)
	ok(t, err)
	s := New(reader, onlyToken("secret"), slog.New(slog.DiscardHandler))
	s.reviewed = time.Millisecond
	server := httptest.NewServer(s)
	defer server.Close()
	got := framesOf(t, must[*url.URL](t)(url.Parse(server.URL)), nil, "/api/v1/pods?watch=1&timeoutSeconds=1", "secret")
	if len(got) != 1 || !strings.Contains(got[0], `"ADDED"`) {
		t.Errorf("the watch has %q", got)
	}
}
