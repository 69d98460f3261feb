package past

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/config"
	"kubecdc/query"
	"kubecdc/sinks"
)

// requestsSince reads the audit events about objects since a time.
func requestsSince(ctx context.Context, c *cobra.Command, r sinks.Reader, objects *sinks.Objects, since time.Time) (*query.Requests, error) {
	q, err := query.ReadRequests(ctx, r, objects, since)
	if err != nil {
		return nil, err
	}
	if settings, _, err := config.Load(os.Environ(), c.Flags()); err == nil {
		q.Ignores = func(resource string) bool { return ignores(&settings.Records, resource) }
	}
	return q, nil
}

// remarkRequests says which time the audit events cover.
func (p *pastFlags) remarkRequests(errs io.Writer, q *query.Requests) {
	if q.Known() {
		p.addRemark(errs, fmt.Sprintf("audit events are there from %s to %s", q.Coverage.Since.Format(time.RFC3339), q.Coverage.Last.Format(time.RFC3339)))
	}
}

// ignores reports whether the settings may leave updates of a resource out of the log.
func ignores(r *config.Records, resource string) bool {
	return !slices.Contains(r.Ops, change.Update.String()) || slices.ContainsFunc(r.IgnoreFields, func(field string) bool {
		selected, _, _ := strings.Cut(field, ":")
		return selected == resource || strings.Contains(selected, "*")
	})
}
