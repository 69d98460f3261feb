package past

import (
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/config"
	"kubecdc/query/timeline"
	"kubecdc/query/who"
	"kubecdc/sinks"
)

// ignores reports what the settings left out, by the log, and else by the settings of this environment.
func (t *changes) ignores(c *cobra.Command) func(resource string, since time.Time, l *sinks.Logged) (may, known bool) {
	var here []string
	if settings, _, err := config.Load(os.Environ(), c.Flags()); err == nil {
		here = ignoredBy(&settings.Records)
	}
	return func(resource string, since time.Time, l *sinks.Logged) (may, known bool) {
		may, known = t.late.Ignores(resource, since, l)
		return may || !known && timeline.Ignores(here, resource), known
	}
}

// remarkRequests says which time the audit events cover.
func (p *pastFlags) remarkRequests(errs io.Writer, q *who.Requests) {
	if q.Known() {
		p.addRemark(errs, "audit events are there from "+p.clockOf(q.Coverage.Since)+" to "+p.clockOf(q.Coverage.Last))
	}
}

// ignoredBy returns the resources whose updates the settings may leave out of the log. "*" stands for all.
func ignoredBy(r *config.Records) (ids []string) {
	if !slices.Contains(r.Ops, change.Update.String()) {
		return []string{"*"}
	}
	for _, field := range r.IgnoreFields {
		if id, _, _ := strings.Cut(field, ":"); strings.Contains(id, "*") {
			ids = append(ids, "*")
		} else {
			ids = append(ids, id)
		}
	}
	return ids
}
