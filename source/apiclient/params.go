package apiclient

import (
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"kubecdc/change"
)

// This file builds the parameters of each request, in pure functions. The contracts are those of
// https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions

const (
	acceptJSON      = "application/json"
	acceptListMeta  = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	acceptWatchMeta = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

// selectors returns the parameters that every request for a collection has.
func selectors(s *change.Stream) url.Values {
	q := url.Values{}
	if s.LabelSelector != "" {
		q.Set("labelSelector", s.LabelSelector)
	}
	if s.FieldSelector != "" {
		q.Set("fieldSelector", s.FieldSelector)
	}
	return q
}

// ListOptions selects what to list of a collection.
type ListOptions struct {
	MetadataOnly bool
	Limit        int                    // most objects a page. With 0 the pace decides, or it has all
	Pace         *Pace                  // limits each request for the page, and learns from it, unless it is nil
	Continue     string                 // the token of the page before
	Exact        change.ResourceVersion // the collection as it was at this resourceVersion, or as it is now if empty
	Namespace    string                 // the only namespace to read in a collection of all namespaces
	Name         string                 // only the object of this name
}

// query builds the parameters of one page.
//
// The first page of a list of the present sets no resourceVersion ("most recent"). That is a consistent read, so the list is
// never older than anything that a server has sent before. resourceVersion=0 ("any") is cheaper and may go back in time, so it is
// never used. A continue token has the first page's version in it and must be sent without a resourceVersion.
//
// A list of the past sets resourceVersionMatch=Exact. The server answers 410 if it has compacted that revision.
func (o ListOptions) query(s *change.Stream) url.Values {
	q := selectors(s)
	if o.Limit > 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	if o.Name != "" {
		byName := "metadata.name=" + fields.EscapeValue(o.Name) + "," + s.FieldSelector
		q.Set("fieldSelector", strings.TrimSuffix(byName, ","))
	}
	switch {
	case o.Continue != "":
		q.Set("continue", o.Continue)
	case o.Exact != "":
		q.Set("resourceVersion", string(o.Exact))
		q.Set("resourceVersionMatch", "Exact")
	}
	return q
}

// watchParams asks for every event after the version, with bookmarks, until the server's timeout. In a watch, resourceVersion
// means "start exactly after it", and resourceVersionMatch must not be set.
//
// Without a version it asks for a streaming list: every object, and then every event after them (KEP-3157). Such a watch must set
// resourceVersionMatch=NotOlderThan. Without a resourceVersion it is a consistent read, as a list is.
func watchParams(s *change.Stream, version change.ResourceVersion, timeoutSeconds int) url.Values {
	q := selectors(s)
	q.Set("watch", "1")
	q.Set("allowWatchBookmarks", "true")
	q.Set("timeoutSeconds", strconv.Itoa(timeoutSeconds))
	if version == "" {
		q.Set("sendInitialEvents", "true")
		q.Set("resourceVersionMatch", "NotOlderThan")
		return q
	}
	q.Set("resourceVersion", string(version))
	return q
}
