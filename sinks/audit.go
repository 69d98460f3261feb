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

// AuditReader is a Reader of a log that may have audit records.
type AuditReader interface {
	// Audits visits the records that a query selects, in any order, each once. A record is valid until visit returns.
	Audits(ctx context.Context, q audit.Query, visit func(*audit.Record) error) error
	// AuditCoverage says of which time the log has audit records.
	AuditCoverage(ctx context.Context) (audit.Coverage, error)
}
