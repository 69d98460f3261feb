package serve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"golang.org/x/net/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/internal/web"
)

// bySocket answers a watch by a WebSocket, as a browser asks for it. Each event is a text frame. What the client sends is not
// used.
func (w *watcher) bySocket(ctx context.Context, r *http.Request) error {
	// a browser adds a password that it knows to the request of any page
	if w.access != nil && !web.SendsItsToken(r) && !sameOrigin(r) {
		return apierrors.NewForbidden(schema.GroupResource{Resource: w.q.plural}, "",
			errors.New("a page of another origin must send a token"))
	}
	server := websocket.Server{Handshake: func(c *websocket.Config, r *http.Request) (err error) {
		if c.Origin, err = websocket.Origin(c, r); err == nil && c.Origin == nil {
			err = errors.New("a WebSocket has an Origin")
		}
		return err
	}, Handler: func(socket *websocket.Conn) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			_, _ = io.Copy(io.Discard, socket) // until the client leaves
			cancel()
		}()
		w.w, w.flush = &frames{socket, http.Header{}}, func() error { return nil }
		_ = w.end(ctx, w.run(ctx))
	}}
	server.ServeHTTP(w.w, web.WithoutToken(r))
	return nil
}

func sameOrigin(r *http.Request) bool {
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host == r.Host
}

// frames is the ResponseWriter of a watch whose header was sent: each Write is a frame. Warnings are lost.
type frames struct {
	*websocket.Conn
	header http.Header
}

func (f *frames) Header() http.Header { return f.header }
func (f *frames) WriteHeader(int)     {}
