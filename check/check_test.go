package check

import (
	"context"
	"testing"
	"time"

	"kubecdc/internal/dependency"
)

// The report may be on its way to the terminal when an abandoned check goes on.
func TestALateCheckAddsNothingToTheReport(t *testing.T) {
	r := &report{ctx: t.Context()}
	abandoned, ended := make(chan struct{}), make(chan struct{})
	err := r.step(dependency.Step{Awaited: "sink", Limit: time.Millisecond}, func(r *report, _ context.Context) (string, error) {
		<-abandoned
		r.warn("sink", "too late")
		close(ended)
		return "", nil
	})
	close(abandoned)
	<-ended
	if err == nil || len(r.findings) != 1 || r.findings[0].State != Failed {
		t.Errorf("the report has %v", r.findings)
	}
}
