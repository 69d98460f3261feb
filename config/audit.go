package config

import (
	"path/filepath"
	"slices"
	"strings"
)

// hidable is what KUBECDC_AUDIT_HIDE may name.
var hidable = []string{"users", "groups", "addresses"}

// Enabled reports whether audit events are to come.
func (a *Audit) Enabled() bool { return a.TokenFile != "" || len(a.Files) > 0 }

func (l *loader) checkAudit() {
	a := &l.c.Audit
	if a.TokenFile != "" {
		l.checkTokenFile("KUBECDC_AUDIT_TOKEN_FILE", a.TokenFile)
		if l.c.Process.Listen == "off" {
			l.warn("KUBECDC_AUDIT_TOKEN_FILE has no effect while KUBECDC_LISTEN is off: the API server can't bring the events")
		} else if l.c.HTTP.TLSCert == "" && !Loopback(l.c.Process.Listen) {
			l.warn("KUBECDC_AUDIT_TOKEN_FILE is set without KUBECDC_HTTP_TLS_CERT: an API server sends the token over TLS " +
				"alone, so its events are refused unless something before the exporter speaks TLS")
		}
	}
	for _, kind := range a.Hide {
		if !slices.Contains(hidable, kind) {
			l.add("KUBECDC_AUDIT_HIDE", "not what can be hidden", "use "+strings.Join(hidable, ", "))
		}
	}
	for _, file := range a.Files {
		if _, err := filepath.Match(file, ""); err != nil {
			l.add("KUBECDC_AUDIT_FILES", "not a pattern of file names", "write a path, in which * stands for any part of a name")
		}
	}
}
