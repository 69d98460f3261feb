package run

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"kubecdc/audit"
	"kubecdc/checkpoint"
	"kubecdc/config"
	"kubecdc/export/plan"
	"kubecdc/setup"
	"kubecdc/sinks"
)

// openAudit accepts audit events for the sink until it is closed. Writing them can't delay or end a session.
func openAudit(
	ctx context.Context, settings *config.Config, planned plan.Config, store checkpoint.Pins, sink sinks.Sink,
	intake *audit.Intake,
) (closed func(), err error) {
	log, keeps := sink.(sinks.AuditLog)
	if intake == nil || !keeps {
		return func() {}, nil
	}
	if len(settings.Audit.Hide) > 0 {
		if err := planned.UseKey(ctx, store); err != nil {
			return nil, fmt.Errorf("read the key of the hashes: %w", err)
		}
	}
	return intake.Open(log, setup.AuditHide(settings, planned.Content.Key)), nil
}

// readAudit reads the files of KUBECDC_AUDIT_FILES until the context ends.
func readAudit(ctx context.Context, settings *config.Config, intake *audit.Intake, log *slog.Logger) {
	files := slices.Clone(settings.Audit.Files)
	if i := slices.Index(files, "-"); i >= 0 {
		files = slices.Delete(files, i, i+1)
		go func() {
			err := intake.Stream(ctx, os.Stdin, log)
			if ctx.Err() == nil {
				log.Warn("standard input has ended: no more audit events come from there", "error", err)
			}
		}()
	}
	if len(files) > 0 {
		go audit.NewFiles(intake, files, log).Run(ctx)
	}
}
