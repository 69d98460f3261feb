package config

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"kubecdc/internal/plain"
)

// validate checks what tags can't express: notations, and settings that require or exclude each other.
func (l *loader) validate() {
	l.checkResources("KUBECDC_RESOURCES", l.c.Source.Resources)
	l.checkResources("KUBECDC_METADATA_ONLY", l.c.Records.MetadataOnly)
	l.checkContent()
	l.checkSource()
	l.checkWith()
	l.checkKafka()
	l.checkPostgres("KUBECDC_SINK_POSTGRES", l.c.Sink.Postgres)
	l.checkPostgresPassword("KUBECDC_SINK_POSTGRES", l.c.Sink.Postgres, l.c.Sink.PasswordFile)
	l.checkCheckpoint()
	l.checkBatch()
	l.checkListen()
	l.checkHTTP()
	l.checkAudit()
}

// resourceName matches a plural with its group and perhaps a version, or a pattern: pods, deployments.apps, *.example.com, *.
// discovery.ParsePattern parses it.
var resourceName = regexp.MustCompile(`^(\*|[a-z0-9]([a-z0-9-]*[a-z0-9])?)(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)

func (l *loader) checkResources(name string, list List) {
	l.checkLeftOut(name, list)
	for _, r := range list {
		r := strings.TrimPrefix(r, "!")
		switch {
		case strings.Contains(r, "/"):
			parts := strings.Split(r, "/")
			l.add(name, fmt.Sprintf("%q is not a resource", r),
				"write the plural first and the group after a dot, as kubectl does: "+parts[len(parts)-1]+"."+parts[0])
		case r != strings.ToLower(r):
			l.add(name, fmt.Sprintf("%q is not a resource", r),
				"write the plural in lower case, such as pods or deployments.apps; kubectl api-resources lists them")
		case !resourceName.MatchString(r):
			l.add(name, fmt.Sprintf("%q is not a resource", r),
				"write pods, deployments.apps, *.example.com or *, with commas between")
		}
	}
}

func (l *loader) checkSource() {
	for _, ns := range l.c.Source.Namespaces {
		if len(validation.IsDNS1123Label(ns)) > 0 {
			l.add("KUBECDC_NAMESPACES", fmt.Sprintf("%q is not a valid name of a namespace", ns),
				"write names with commas between, or leave it out for all namespaces; there are no patterns")
		}
	}
	if _, err := labels.Parse(l.c.Source.LabelSelector); err != nil {
		l.add("KUBECDC_LABEL_SELECTOR", plain.Redact(err.Error()), "write it as for kubectl get -l: app=shop,tier!=test")
	}
	if _, err := fields.ParseSelector(l.c.Source.FieldSelector); err != nil {
		l.add("KUBECDC_FIELD_SELECTOR", plain.Redact(err.Error()),
			"write it as for kubectl get --field-selector: metadata.name=web")
	}
}

func (l *loader) checkBatch() {
	b := l.c.Batch
	if !l.bad["KUBECDC_BATCH_MAX_CHANGES"] && b.BufferChanges < b.MaxChanges {
		l.add("KUBECDC_BUFFER_CHANGES", fmt.Sprintf("smaller than a batch (%d)", b.MaxChanges),
			"make it at least KUBECDC_BATCH_MAX_CHANGES, better several times that")
	}
	if !l.bad["KUBECDC_BATCH_MAX_BYTES"] && b.BufferBytes < b.MaxBytes {
		l.add("KUBECDC_BUFFER_BYTES", "smaller than a batch ("+b.MaxBytes.String()+")",
			"make it at least KUBECDC_BATCH_MAX_BYTES, better several times that")
	}
}

// checkListen also sets the default. The pages reveal much about a cluster, and everybody can read them unless
// KUBECDC_HTTP_ACCESS forbids it.
func (l *loader) checkListen() {
	if l.c.Process.Listen == "" {
		l.c.Process.Listen = DefaultListen
		if os.Getenv("KUBERNETES_SERVICE_HOST") != "" { // as client-go tells a Pod
			l.c.Process.Listen = ":8080"
		}
	}
	if l.c.Process.Listen != "off" && !hostPort(l.c.Process.Listen, true) {
		l.add("KUBECDC_LISTEN", "not an address", "write :8080, 127.0.0.1:8080, or off")
	}
}

func hostPort(addr string, emptyHost bool) bool {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" && !emptyHost {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n >= 0 && n <= 65535 && !strings.ContainsAny(host, "/@ ")
}
