package config

import (
	"regexp"
	"slices"
	"strings"

	"kubecdc/internal/suggest"
)

// serviceLink matches the variables that kubelet sets in each container for a Service called kubecdc or kubecdc-…:
// https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables
var serviceLink = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)$`)

// warnUnknown warns of variables that are named like settings, but are no settings. Otherwise a typing error would go unnoticed.
func (l *loader) warnUnknown() {
	var unknown []string
	for name := range l.values {
		if strings.HasPrefix(name, prefix) && byEnv[name] == nil && !serviceLink.MatchString(name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		l.warn(name + " is not a setting and has no effect; " + suggest.DidYouMean(name, envNames()) +
			"exporter run --help lists all")
	}
}

func envNames() (names []string) {
	for _, s := range all {
		names = append(names, s.Env)
	}
	return names
}
