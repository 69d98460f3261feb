package sinks

import (
	"context"

	"kubecdc/audit"
)

// AuditLog is a Sink that also stores audit records.
type AuditLog interface {
	// WriteAudit makes records durable. Each id is stored once, however often and from whichever replica it comes. It is safe for
	// concurrent use, and needs no slot.
	WriteAudit(ctx context.Context, records []audit.Record) error
}
