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

// ProxyError is the refusal of an HTTP proxy to connect to the API server. The request did not reach the API server.
type ProxyError struct {
	Proxy  string // its address, without user and password
	Target string // host:port of the API server
	Code   int
	Status string
}

func (e *ProxyError) Error() string {
	text := fmt.Sprintf("the proxy %s (HTTPS_PROXY, or proxy-url in the kubeconfig) answers %q when it is asked to connect to %s",
		e.Proxy, e.Status, e.Target)
	switch {
	case e.Code == http.StatusProxyAuthRequired:
		return text + ": give it user and password (http://user:password@host:port), or name the API server's host in NO_PROXY"
	case e.Code < http.StatusInternalServerError:
		return text + ": it must allow that, or the API server's host must be named in NO_PROXY"
	}
	return text + ": it can't reach it for now"
}

// ProxyOf names the proxy on the way to an API server without TLS, or "" if there is none. Such a proxy reads the requests and
// may answer them, which TLS prevents.
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

// address returns the proxy's address, without user and password.
func address(proxy *url.URL) string {
	return (&url.URL{Scheme: proxy.Scheme, Host: proxy.Host}).String()
}

// NameProxies turns the refusal of a proxy into a *ProxyError. net/http returns only its text, as if the API server had sent it.
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

// base returns the transport below all wrappers, or nil if it is not an *http.Transport.
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
