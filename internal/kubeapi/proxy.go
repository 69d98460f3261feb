package kubeapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// ProxyError: the HTTP proxy that leads to the API server does not connect to it. The API server was not asked.
type ProxyError struct {
	Proxy  string // its address, without user and password
	Target string // host:port of the API server
	Code   int
	Status string
}

func (e *ProxyError) Error() string {
	text := fmt.Sprintf("the proxy %s (HTTPS_PROXY, or proxy-url in the kubeconfig) answers %q when it is asked to connect to %s", e.Proxy, e.Status, e.Target)
	switch {
	case e.Code == http.StatusProxyAuthRequired:
		return text + ": give it user and password (http://user:password@host:port), or name the API server's host in NO_PROXY"
	case e.Code < http.StatusInternalServerError:
		return text + ": it must allow that, or the API server's host must be named in NO_PROXY"
	}
	return text + ": it can't reach it for now"
}

// ProxyOf names the proxy by which a request without TLS goes to the API server, which reads and may answer it; empty without
// one. With TLS a proxy only passes on what it can't read.
func ProxyOf(config *rest.Config, server *url.URL) string {
	proxy := config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	if server.Scheme == "https" {
		return ""
	}
	if u, err := proxy(&http.Request{URL: server}); err == nil && u != nil {
		return " (" + address(u) + ")"
	}
	return ""
}

// address is that of a proxy, without user and password.
func address(proxy *url.URL) string {
	return (&url.URL{Scheme: proxy.Scheme, Host: proxy.Host}).String()
}

// NameProxies makes the refusal of a proxy a *ProxyError; net/http gives its words alone, as if they were the API server's.
func NameProxies(config *rest.Config) {
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		if t := base(rt); t != nil {
			proxies.Lock()
			defer proxies.Unlock()
			if t.OnProxyConnectResponse == nil { // client-go shares transports
				t.OnProxyConnectResponse = connected
			}
		}
		return rt
	})
}

var proxies sync.Mutex

// base is the transport below all wrappers; nil where it is another.
func base(rt http.RoundTripper) *http.Transport {
	for {
		switch t := rt.(type) {
		case *http.Transport:
			return t
		case net.RoundTripperWrapper:
			rt = t.WrappedRoundTripper()
		default:
			return nil
		}
	}
}

func connected(_ context.Context, proxy *url.URL, request *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return &ProxyError{Proxy: address(proxy), Target: request.Host, Code: answer.StatusCode, Status: answer.Status}
}
