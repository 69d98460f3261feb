package apiclient

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// EtcdOverrides returns how many etcds hold resources of kube-apiserver in addition to the default one, or -1 if that is not
// known. A server of at least 1.34 lists a health check for each etcd of --etcd-servers-overrides
// (https://github.com/kubernetes/kubernetes/pull/129438). The checks may fail, only their names count.
func (c *Client) EtcdOverrides(ctx context.Context) (int, error) {
	recent, err := c.AtLeast(ctx, 1, 34)
	if err != nil || !recent {
		return -1, err
	}
	checks, err := c.healthChecks(ctx)
	if err != nil || !strings.Contains(checks, "]etcd ") {
		return -1, err
	}
	return strings.Count(checks, "]etcd-override-") - strings.Count(checks, "]etcd-override-readiness-"), nil
}

// healthChecks returns one line for each health check: "[+]NAME ok", or "[-]NAME failed: …".
func (c *Client) healthChecks(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.idle)
	defer cancel()
	resp, err := c.send(ctx, "/livez", url.Values{"verbose": {""}}, "*/*")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusInternalServerError {
		return "", readStatus(resp, c.withhold)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil {
		err = c.SameCluster(ctx)
	}
	return string(text), err
}
