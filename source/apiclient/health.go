package apiclient

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// OneEtcd reports whether kube-apiserver certainly keeps all resources that it serves itself in one etcd, so that a
// resourceVersion of one of them is a revision of all. A server of at least 1.34 lists a health check for each etcd of --etcd-servers-overrides
// (https://github.com/kubernetes/kubernetes/pull/129438); the checks may fail, only their names count.
func (c *Client) OneEtcd(ctx context.Context) (bool, error) {
	if recent, err := c.isAtLeast(ctx, 1, 34); err != nil || !recent {
		return false, err
	}
	checks, err := c.healthChecks(ctx)
	return strings.Contains(checks, "]etcd ") && !strings.Contains(checks, "]etcd-override-"), err
}

// healthChecks returns one line for each health check: "[+]NAME ok", or "[-]NAME failed: …".
func (c *Client) healthChecks(ctx context.Context) (string, error) {
	u := *c.base
	u.Path = singleSlash(u.Path, "/livez")
	u.RawQuery = url.Values{"verbose": {""}}.Encode()
	ctx, cancel := context.WithTimeout(ctx, c.idle)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusInternalServerError {
		return "", readStatus(resp, c.withhold)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return string(text), err
}
