package discovery

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/source/apiclient"
)

// origin is who serves the resources of a group. It decides what becomes of their objects when they are not served any more.
// While they are served, the label of the group's APIServices shows the origin. It is remembered, since the APIServices are
// deleted with what they stand for.
type origin int

const (
	originUnknown    origin = iota
	originCustom            // CRDs
	originAggregated        // an API server of its own
	originBuiltIn           // kube-apiserver
)

// outlives returns why the objects of a resource exist after it is no longer served, or nil if they don't.
func (o origin) outlives() error {
	const otherwise = "the stream waits until it is served again, and no deletion is recorded. If it is gone for good, leave " +
		"it out of " +
		"KUBECDC_RESOURCES"
	switch o {
	case originBuiltIn:
		return errors.New("it is built in, and has no CRD whose deletion would delete its objects; another API server of the " +
			"cluster may " +
			"serve it, as during an upgrade: " + otherwise)
	case originAggregated:
		return errors.New("it is served by an aggregated API server, whose objects outlive its APIService: " + otherwise)
	}
	return nil
}

// automanaged is the label of APIServices that kube-apiserver makes itself: "onstart" for what is built in, "true" for groups of
// CRDs (k8s.io/kube-aggregator, pkg/controllers/autoregister). It removes the first kind if it does not serve it.
const automanaged = "kube-aggregator.kubernetes.io/automanaged"

type services struct {
	versions []string
	origin   origin
}

// servicesByGroup returns the APIServices of each group. Their names are VERSION.GROUP.
func (d *Server) servicesByGroup(ctx context.Context) (map[string]services, error) {
	all, groups := change.NewStream(apiServices, "", "", ""), map[string]services{}
	options := apiclient.ListOptions{MetadataOnly: true, Limit: 500}
	_, err := d.client.ListAll(ctx, all, options, func(_ *apiclient.Page, o *apiclient.Object, _ error) error {
		version, group, _ := strings.Cut(o.Name, ".")
		s := groups[group]
		s.versions, s.origin = append(s.versions, version), max(s.origin, originIn(o.Raw))
		groups[group] = s
		return nil
	})
	return groups, err
}

func originIn(raw []byte) origin {
	labels := rawjson.Member(rawjson.Member(raw, "metadata"), "labels")
	switch label, _ := rawjson.Text(rawjson.Member(labels, automanaged)); label {
	case "onstart":
		return originBuiltIn
	case "true":
		return originCustom
	}
	return originAggregated
}

// originOf returns the origin of a group that is not served, given the APIServices that exist. If the group was served before
// this process began and no origin was recorded, its name decides: only built-in groups have no dot. Groups in k8s.io belong to
// Kubernetes, so one that this release does not know may be built in too.
func (d *Server) originOf(group string, present map[string]services) origin {
	d.mu.Lock()
	defer d.mu.Unlock()
	remembered := d.origins[group]
	switch {
	case slices.Contains(builtIn, group), !strings.Contains(group, "."):
		return originBuiltIn
	case remembered != originUnknown:
		return remembered
	case present[group].origin != originUnknown:
		return present[group].origin
	case d.recorded[group]:
		return originAggregated
	case strings.HasSuffix(group, ".k8s.io"):
		return originBuiltIn
	}
	return originCustom
}

// Aggregated reports whether an aggregated API server serves a group. known is false if that was not found out since the start.
func (d *Server) Aggregated(group string) (isAggregated, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.origins[group]
	return o == originAggregated, o != originUnknown
}

// Custom reports whether CRDs are known to define the resources of a group.
func (d *Server) Custom(group string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.origins[group] == originCustom
}

// RecordAggregated records what an earlier process found out: an aggregated API server served the group.
func (d *Server) RecordAggregated(group string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recorded[group] = true
}

// remember reads the origins of resources that are served, unless they are known.
func (d *Server) remember(ctx context.Context, served []change.Resource, log *slog.Logger) {
	if !slices.ContainsFunc(served, d.isNew) {
		return
	}
	groups, err := d.servicesByGroup(ctx)
	if err != nil {
		log.Debug("who serves the resources can't be read; it is tried again", "error", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for group, s := range groups {
		d.origins[group] = s.origin
	}
}

func (d *Server) isNew(r change.Resource) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.origins[r.Group] == originUnknown && !slices.Contains(builtIn, r.Group)
}
