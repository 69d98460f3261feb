package apiclient

import "net/http"

// Guarded returns an HTTP client for typed clients, over the same connections. It uses no answer of another cluster either: reads are
// checked as Loosely does, and the cluster is checked before each write. Only where the address leads elsewhere in between may
// another cluster get one.
func (c *Client) Guarded() *http.Client { return &http.Client{Transport: guarded{c.Loosely()}} }

type guarded struct{ client *Client }

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	c, ctx := g.client, r.Context()
	if r.Method != http.MethodGet {
		if err := c.SameCluster(ctx); err != nil {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, err
		}
	}
	response, err := c.http.Do(r.WithContext(c.checks.noticeConnections(ctx)))
	if err != nil {
		return nil, err
	}
	if err := c.checkAnswer(ctx, response.ProtoMajor > 1, nil); err != nil {
		_ = response.Body.Close()
		return nil, err
	}
	return response, nil
}
