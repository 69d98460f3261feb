package setup

import (
	"slices"
	"strings"

	"kubecdc/audit"
	"kubecdc/config"
	"kubecdc/redact"
	"kubecdc/source/discovery"
)

// AuditIntake returns the intake for audit events, or nil if it is not enabled.
func AuditIntake(c *config.Config, count func(audit.Tally)) (*audit.Intake, error) {
	a := &c.Audit
	if !a.Enabled() {
		return nil, nil
	}
	resources, err := discovery.ParsePatterns(c.Source.Resources)
	if err != nil {
		return nil, err
	}
	p := audit.Parser{All: bool(a.All), Extra: a.Extra, Wanted: func(resource, namespace string) bool {
		return discovery.Selects(resources, resource) &&
			(len(c.Source.Namespaces) == 0 || slices.Contains(c.Source.Namespaces, namespace))
	}}
	if a.Path != "" {
		p.Path = strings.Split(a.Path, ".")
	}
	return audit.NewIntake(p, count), nil
}

// AuditHide returns the function that hides a value in audit records. It hashes users, groups or addresses, if
// KUBECDC_AUDIT_HIDE has their kind. It returns other values, and names that begin with system:, unchanged.
func AuditHide(c *config.Config, key redact.Key) func(audit.Kind, string) string {
	return func(kind audit.Kind, value string) string {
		if !slices.Contains(c.Audit.Hide, string(kind)) || strings.HasPrefix(value, "system:") {
			return value
		}
		return key.Name(string(kind), value)
	}
}
