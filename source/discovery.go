package source

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kubecdc/change"
	"kubecdc/source/apiclient"
)

// Served is what the API server serves now.
type Served struct {
	all       []change.Resource // every version of every resource that can be listed and watched
	versions  map[string]string // group → preferred version
	byVersion map[string]bool   // ID + version of the resources in their group's preferred version
	failed    map[string]bool   // groups that could not be read just now (an aggregated API server is down)
}

// preferred reports whether r is in the version to read it by: the group's preferred one, or, for a resource that
// this one lacks, the first that has it.
func (s Served) preferred(r change.Resource) bool {
	if r.Version == s.versions[r.Group] {
		return true
	}
	if s.byVersion[r.ID()] {
		return false
	}
	for _, other := range s.all {
		if other.ID() == r.ID() {
			return other.Version == r.Version
		}
	}
	return false
}

// Discovery reads what the API server serves.
type Discovery struct {
	client *apiclient.Client
	config *rest.Config
}

// Connect prepares the connection to an API server; it makes no request.
func Connect(config *rest.Config) (*Discovery, error) {
	client, err := apiclient.New(config)
	if err != nil {
		return nil, err
	}
	return &Discovery{client, config}, nil
}

// Client returns the client that reads the API server, for those who list and watch.
func (d *Discovery) Client() *apiclient.Client { return d.client }

// Host returns the API server's address, for messages.
func (d *Discovery) Host() string { return d.client.Host() }

// discoveryTimeout bounds the reading of all documents.
const discoveryTimeout = 32 * time.Second

// Served asks the server, again where it says to come back later. Groups that fail are named in the result, and are
// no error while others answer.
func (d *Discovery) Served(ctx context.Context) (Served, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	for {
		s, err := d.documents(ctx)
		if err == nil {
			return s, nil
		}
		wait := apiclient.RetryAfter(err)
		if wait == 0 {
			return s, fmt.Errorf("ask the API server what it serves: %w", err)
		}
		select {
		case <-ctx.Done():
			return s, fmt.Errorf("ask the API server what it serves: %w", err)
		case <-time.After(wait):
		}
	}
}

// add notes a resource, if it can be listed and watched.
func (s *Served) add(gv schema.GroupVersion, r metav1.APIResource) {
	if !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "watch") {
		return
	}
	found := change.Resource{Group: gv.Group, Version: gv.Version, Plural: r.Name, Kind: r.Kind, Namespaced: r.Namespaced}
	s.all = append(s.all, found)
	if found.Version == s.versions[gv.Group] {
		s.byVersion[found.ID()] = true
	}
}

// triggers are the collections whose changes mean that the server may serve other resources now.
var triggers = []change.Resource{
	{Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions"},
	{Group: "apiregistration.k8s.io", Version: "v1", Plural: "apiservices"},
}

// Selection is what the patterns select at one moment.
type Selection struct {
	Resources []change.Resource
	// Unsure are groups that could not be read: what was selected of them before still stands.
	Unsure map[string]bool

	discovery *Discovery
	patterns  []Pattern
	served    Served
	doubts    map[string]error // of resources that are in Resources though discovery does not show them (removal.go)
}

// Follow calls changed with the selection now and then whenever it may have changed, until the context ends. It
// watches CRDs and API services, and polls in any case (that alone, where watching them is forbidden). Discovery
// documents lag behind the CRD, so after a trigger it asks a few times.
func (d *Discovery) Follow(ctx context.Context, patterns []Pattern, poll time.Duration, log *slog.Logger, changed func(Selection)) {
	kick := make(chan struct{}, 1)
	for _, r := range triggers {
		go followTrigger(ctx, d.client, r, kick, poll, log)
	}
	settle := []time.Duration{0, 300 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second}
	again := settle
	removals := newRemovals(d)
	for {
		delay := poll
		if len(again) > 0 {
			delay, again = again[0], again[1:]
		}
		select {
		case <-ctx.Done():
			return
		case <-kick:
			again = settle
			continue
		case <-time.After(delay):
		}
		served, err := d.Served(ctx)
		if err != nil {
			log.Warn("discovery failed; the resources stay as they are", "error", err)
			continue
		}
		selected, _ := Select(patterns, served)
		selected, doubts := removals.keep(ctx, selected)
		if passing(doubts) && len(again) == 0 {
			again = settle[len(settle)-1:]
		}
		changed(Selection{Resources: selected, Unsure: served.failed, discovery: d, patterns: patterns, served: served, doubts: doubts})
	}
}

// followTrigger kicks on every event of one collection.
func followTrigger(ctx context.Context, client *apiclient.Client, r change.Resource, kick chan<- struct{}, poll time.Duration, log *slog.Logger) {
	stream := change.NewStream(r, "", "", "")
	for ctx.Err() == nil {
		if err := watchTrigger(ctx, client, stream, kick); err != nil && apiclient.IsRefused(err) {
			log.Debug("discovery polls: watching is refused", "resource", r.ID(), "every", poll, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(poll, 5*time.Second)):
		}
	}
}

func watchTrigger(ctx context.Context, client *apiclient.Client, stream *change.Stream, kick chan<- struct{}) error {
	p, err := client.List(ctx, stream, apiclient.ListOptions{MetadataOnly: true, Limit: 1}, func(*apiclient.Page, []byte) error { return nil })
	if err != nil {
		return err
	}
	w, err := client.Watch(ctx, stream, true, p.Version, 600)
	if err != nil {
		return err
	}
	defer w.Close()
	for e := (apiclient.Event{}); ; { // at first too: what changed before the watch was open was not seen
		if e.Type != "BOOKMARK" {
			select {
			case kick <- struct{}{}:
			default:
			}
		}
		if e, err = w.Next(); err != nil {
			return err
		}
	}
}
