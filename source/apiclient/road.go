package apiclient

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// gzip costs CPU of the API server and of this process. It saves bytes, which delay a list only if the server is far away.

// farAway is the shortest round trip of a server that is far away. Servers of one region answer in a few milliseconds.
const farAway = 20 * time.Millisecond

// road is what is known of the way to the API server. A client and all clients that are made from it share it.
type road struct {
	compression string       // the compression of answers: auto, gzip, or none, which is the default
	trip        atomic.Int64 // the shortest round trip of a small request, in nanoseconds, or 0 if it is not known
}

// Compress sets whether the client, and all made from it, ask for answers in gzip: auto (if the server is far away), gzip or
// none. It is called before streams use the client.
func (c *Client) Compress(how string) { c.road.compression = how }

// record takes the round trip of a small request.
func (r *road) record(trip time.Duration) {
	for {
		shortest := r.trip.Load()
		if shortest > 0 && shortest <= int64(trip) || r.trip.CompareAndSwap(shortest, int64(trip)) {
			return
		}
	}
}

// FarAway reports whether round trips to the server cost more than its and this process's work. It returns false while that is
// not known.
func (c *Client) FarAway() bool { return c.road.trip.Load() >= int64(farAway) }

// compresses reports whether to ask for an answer in gzip. A watch is not: how its bytes come tells when its events happened
// (arrivals.go).
func (c *Client) compresses(query url.Values) bool {
	if query.Has("watch") && !query.Has("sendInitialEvents") {
		return false
	}
	return c.road.compression == "gzip" || c.road.compression == "auto" && c.FarAway()
}

// decompress makes the body of an answer in gzip readable.
func decompress(resp *http.Response) {
	if resp.Header.Get("Content-Encoding") == "gzip" {
		resp.Body = &gzipBody{body: resp.Body}
	}
}

// gzipBody reads the header of gzip with the first bytes, since it may come late.
type gzipBody struct {
	body   io.ReadCloser
	reader *gzip.Reader
}

func (g *gzipBody) Read(p []byte) (n int, err error) {
	if g.reader == nil {
		if g.reader, err = gzip.NewReader(g.body); err != nil {
			return 0, err
		}
	}
	return g.reader.Read(p)
}

func (g *gzipBody) Close() error { return g.body.Close() }
