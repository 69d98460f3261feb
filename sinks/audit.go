package sinks

import (
	"context"

	"kubecdc/audit"
)

// AuditLog is a Sink that also keeps audit records.
type AuditLog interface {
	// WriteAudit makes records durable, each once by its id, however often it comes and from whichever replica. It is safe for
	// concurrent use, and needs no slot.
	WriteAudit(ctx context.Context, records []audit.Record) error
}
