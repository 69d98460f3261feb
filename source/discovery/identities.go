package discovery

import (
	"context"
	"errors"
	"fmt"

	"kubecdc/change"
	"kubecdc/redact"
	"kubecdc/source/apiclient"
)

// ErrCompacted reports that the API server does not have the state of a resourceVersion any more.
var ErrCompacted = errors.New("the API server has compacted that resourceVersion")

const identitiesPage = 500

// Identities visits the identity of each object that a collection had at a resourceVersion, or has now if that is empty. It
// returns the list's resourceVersion.
func (d *Server) Identities(ctx context.Context, s *change.Stream, revision change.ResourceVersion,
	visit func(key, uid string, version change.ResourceVersion)) (change.ResourceVersion, error) {
	version, err := d.client.Identities(ctx, s, revision, apiclient.NewPace(identitiesPage), func(o *apiclient.Object) {
		visit(o.Key(), o.UID, o.Version)
	}, nil)
	return version, compacted(err)
}

func compacted(err error) error {
	if apiclient.IsGone(err) {
		err = fmt.Errorf("%w: %w", ErrCompacted, err)
	}
	return err
}

// Bodies visits the objects of a collection, as they are exported. They are as of a resourceVersion, or as of now if that is
// empty. It leaves out objects that can't be read. A body is valid until visit returns.
func (d *Server) Bodies(ctx context.Context, s *change.Stream, version change.ResourceVersion, metadataOnly bool,
	redactor *redact.Redactor,
	visit func(key string, version change.ResourceVersion, body []byte)) error {
	client := d.client.With(apiclient.DefaultIdle, redactor != nil)
	o := apiclient.ListOptions{MetadataOnly: metadataOnly, Pace: apiclient.NewPace(identitiesPage), Exact: version}
	_, err := client.ListAll(ctx, s, o, func(_ *apiclient.Page, o *apiclient.Object, unreadable error) error {
		if unreadable == nil && o.Prepare(redactor, &s.Resource) == nil {
			visit(o.Key(), o.Version, o.Raw)
		}
		return nil
	})
	return compacted(err)
}
