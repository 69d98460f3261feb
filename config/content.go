package config

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"kubecdc/redact"
)

// The settings that decide which parts of an object are exported.

// versionOf matches the version in the name of a resource: deployments.v1.apps.
var versionOf = regexp.MustCompile(`^([^.]*)\.v[1-9][a-z0-9]*`)

// plainName returns the name of a resource without version and !.
func plainName(r string) string {
	return versionOf.ReplaceAllString(strings.TrimPrefix(r, "!"), "$1")
}

// checkLeftOut checks the entries of a list of resources that begin with !.
func (l *loader) checkLeftOut(name string, list List) {
	var out, in []string
	for _, r := range list {
		switch rest, not := strings.CutPrefix(r, "!"); {
		case !not:
			in = append(in, plainName(r))
		case rest == "*":
			l.add(name, `"!*" leaves everything out`, "name the resources to leave out, such as !leases.coordination.k8s.io")
		case plainName(r) != rest:
			l.add(name, fmt.Sprintf("%q names a version, but a resource is left out in every version", r), "write !"+plainName(r))
		default:
			out = append(out, rest)
		}
	}
	if len(out) > 0 && len(in) == 0 {
		l.add(name, "has only entries with !", "add what to export: *,!"+strings.Join(out, ",!"))
	}
	for _, r := range out {
		group, wild := strings.CutPrefix(r, "*.")
		for _, named := range in {
			_, groupOfNamed, _ := strings.Cut(named, ".")
			if named == r || wild && groupOfNamed == group && named != "*" {
				l.add(name, fmt.Sprintf("%q is both named and left out, by %q", named, "!"+r), "leave one of the two out")
			}
		}
	}
}

// namesSecrets reports whether a list names Secrets themselves, not by a pattern.
func namesSecrets(list List) bool {
	return slices.ContainsFunc(list, func(r string) bool { return !strings.HasPrefix(r, "!") && plainName(r) == "secrets" })
}

// checkContent checks what is exported of Secrets and of redacted fields.
func (l *loader) checkContent() {
	const name = "KUBECDC_SECRETS"
	r := &l.c.Records
	if namesSecrets(r.MetadataOnly) && l.set(name) && r.Secrets != "metadata" && !l.bad[name] {
		l.add(name, "is "+r.Secrets+", but KUBECDC_METADATA_ONLY names secrets", "leave one of the two out")
	}
	if (l.set(name) || namesSecrets(r.MetadataOnly)) && !namesSecrets(l.c.Source.Resources) {
		l.warn("Secrets are not exported: KUBECDC_RESOURCES does not name them, and patterns never take them; to export them, " +
			"add secrets")
	}
	if namesSecrets(l.c.Source.Resources) && r.Secrets == "plain" {
		l.warn("KUBECDC_SECRETS is plain: whoever reads the log or the checkpoint reads the Secrets")
	}
	if r.Encoding == "object" && r.Before == "full" {
		l.warn("KUBECDC_ENCODING is object: records have no before. KUBECDC_BEFORE=none spares the work of reading it, " +
			"unless the header fieldsChanged or KUBECDC_IGNORE_FIELDS is needed")
	}
	l.checkRegistry()
	l.checkHashKey()
	const redactExample = `configmaps:data.password or secrets:metadata.annotations.example\.com/token`
	l.checkFields("KUBECDC_REDACT", r.Redact, redactExample)
	l.checkFields("KUBECDC_IGNORE_FIELDS", r.IgnoreFields, "nodes:status.conditions or leases.coordination.k8s.io:spec.renewTime")
	if len(r.IgnoreFields) > 0 && r.Before == "none" && byEnv["KUBECDC_BEFORE"].applies(l.c) {
		l.warn("KUBECDC_IGNORE_FIELDS has no effect: it compares each update with the object before it, and KUBECDC_BEFORE " +
			"is none")
	}
	l.checkOps()
}

// checkOps checks that all changes are exported without which the log would not know which objects exist.
func (l *loader) checkOps() {
	const name = "KUBECDC_OPS"
	for _, op := range l.c.Records.Ops {
		if !slices.Contains([]string{"c", "u", "d", "r"}, op) {
			l.add(name, fmt.Sprintf("%q is no op", op), "write c,u,d,r, or c,d,r to leave out updates")
		}
	}
	for _, op := range []string{"c", "d", "r"} {
		if !slices.Contains(l.c.Records.Ops, op) && !l.bad[name] {
			l.add(name, "lacks "+op+": the log would not know which objects exist",
				"write c,u,d,r, or c,d,r to leave out updates")
		}
	}
}

// checkHashKey checks the key of the hashes, after reading it from its file if there is one.
func (l *loader) checkHashKey() {
	const name, file = "KUBECDC_SECRETS_KEY", "KUBECDC_SECRETS_KEY_FILE"
	r := &l.c.Records
	what := name
	if r.SecretsKeyFile != "" {
		if r.SecretsKey != "" {
			l.add(file, "set together with "+name, "leave one of the two out")
			return
		}
		text, err := os.ReadFile(r.SecretsKeyFile)
		if err != nil {
			l.add(file, fileError(err), "name a file that this user can read")
			return
		}
		what, r.SecretsKey = file, Secret(strings.TrimRight(string(text), "\r\n"))
	} else if !l.set(name) {
		return
	}
	if n := len(r.SecretsKey); n < redact.MinKey {
		l.add(what, fmt.Sprintf("the key has %d bytes", n),
			fmt.Sprintf("use %d or more, such as the output of openssl rand -hex 32; or leave it out, and a random key is drawn",
				redact.MinKey))
	}
}

// Field is one entry of KUBECDC_REDACT or KUBECDC_IGNORE_FIELDS.
type Field struct {
	Resource string
	Path     redact.Path
}

// Fields parses a setting with the entries RESOURCE:PATH. It fails at the first entry that is wrong.
func Fields(setting List) (all []Field, err error) {
	for _, entry := range setting {
		resource, path, _ := strings.Cut(entry, ":")
		p, err := redact.ParsePath(path)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", entry, err)
		}
		all = append(all, Field{resource, p})
	}
	return all, nil
}

func (l *loader) checkFields(name string, setting List, example string) {
	write := "write RESOURCE:PATH with commas between, such as " + example
	for _, entry := range setting {
		resource, path, found := strings.Cut(entry, ":")
		switch {
		case !found || path == "" || strings.HasPrefix(resource, "!") || !resourceName.MatchString(resource):
			l.add(name, fmt.Sprintf("%q is not RESOURCE:PATH", entry), write)
		case plainName(resource) != resource:
			l.add(name, fmt.Sprintf("%q names a version, but a field is meant in every version", entry), "write "+
				plainName(resource)+":"+path)
		default:
			if _, err := Fields(List{entry}); err != nil {
				l.add(name, err.Error(), write)
			}
		}
	}
}
