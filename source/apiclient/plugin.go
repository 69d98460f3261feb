package apiclient

import "net/http"

// roundTrip sends a request. It ends with the request's context even where client-go runs a credential plugin first, which it
// does without a context.
func (c *Client) roundTrip(req *http.Request) (*http.Response, error) {
	if c.config.ExecProvider == nil {
		return c.http.Do(req)
	}
	type result struct {
		*http.Response
		error
	}
	results := make(chan result)
	go func() {
		resp, err := c.http.Do(req)
		select {
		case results <- result{resp, err}:
		case <-req.Context().Done():
			if err == nil {
				_ = resp.Body.Close()
			}
		}
	}()
	select {
	case r := <-results:
		return r.Response, r.error
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}
