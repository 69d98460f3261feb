package discovery

import (
	"context"
	"maps"
	"strconv"

	"kubecdc/change"
	"kubecdc/internal/rawjson"
	"kubecdc/source/apiclient"
)

// followed is what the watch of a trigger shows while it is open. That is the generation of each CRD, and 1 for each APIService
// of an aggregated API server. Streams need not read these objects then (apiclient.Client.Followed).
type followed struct {
	client *apiclient.Client
	all    *change.Stream
	shows  map[string]int64 // by name
}

// open lists the collection, and opens the watch.
func (f *followed) open(ctx context.Context) (*apiclient.Watch, error) {
	version, err := f.list(ctx)
	if err != nil {
		return nil, err
	}
	return f.client.Watch(ctx, f.all, f.metadataOnly(), version, triggerSeconds)
}

func (f *followed) metadataOnly() bool { return f.all.Resource == crds }

func (f *followed) list(ctx context.Context) (change.ResourceVersion, error) {
	f.shows = map[string]int64{}
	options := apiclient.ListOptions{MetadataOnly: f.metadataOnly(), Limit: 500}
	return f.client.ListAll(ctx, f.all, options, func(_ *apiclient.Page, o *apiclient.Object, err error) error {
		f.shows[o.Name] = f.shownBy(o)
		return err
	})
}

func (f *followed) shownBy(o *apiclient.Object) int64 {
	if f.all.Resource == crds {
		generation, _ := strconv.ParseInt(string(rawjson.Member(rawjson.Member(o.Raw, "metadata"), "generation")), 10, 64)
		return generation
	}
	if service := string(rawjson.Member(rawjson.Member(o.Raw, "spec"), "service")); service == "" || service == "null" {
		return 0
	}
	return 1
}

// apply takes an event of the watch, or none before the first one.
func (f *followed) apply(e *apiclient.Event) {
	f.shows = maps.Clone(f.shows)
	switch e.Type {
	case "ADDED", "MODIFIED":
		f.shows[e.Object.Name] = f.shownBy(&e.Object)
	case "DELETED":
		delete(f.shows, e.Object.Name)
	}
	f.client.SetFollowed(f.all.Resource.Plural, f.shows)
}
