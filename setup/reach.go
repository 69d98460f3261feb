package setup

import (
	"context"
	"crypto/tls"
	"net/http/httptrace"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// reach tracks how far a request to the API server has come. Credentials come first: client-go runs the kubeconfig's
// plugin before it connects, without a time limit or a way to stop it.
type reach struct {
	plugin string // the command; empty: there is none
	stage  atomic.Pointer[string]
}

func newReach(config *rest.Config) *reach {
	r := &reach{}
	if config.ExecProvider != nil {
		r.plugin = config.ExecProvider.Command
	}
	return r
}

// Trace returns the context of one attempt, whose requests are tracked.
func (r *reach) Trace(ctx context.Context) context.Context {
	r.at("")
	if r.plugin != "" {
		r.at("the kubeconfig's credential plugin " + r.plugin + " has not ended yet")
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:           func(string) { r.at("the connection is not made yet") },
		ConnectDone:       func(_, _ string, err error) { r.on(err, "connected, no answer yet") },
		TLSHandshakeStart: func() { r.at("connected, the TLS handshake has no end yet") },
		TLSHandshakeDone:  func(_ tls.ConnectionState, err error) { r.on(err, "connected with TLS, no answer yet") },
		WroteRequest:      func(w httptrace.WroteRequestInfo) { r.on(w.Err, "it took the request, and has not answered yet") },
	})
}

func (r *reach) at(stage string) { r.stage.Store(&stage) }

func (r *reach) on(err error, stage string) {
	if err == nil {
		r.at(stage)
	}
}

// Progress returns how far the last attempt has come.
func (r *reach) Progress() string {
	if stage := r.stage.Load(); stage != nil {
		return *stage
	}
	return ""
}
