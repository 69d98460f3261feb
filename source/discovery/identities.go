package discovery

import (
	"context"
	"errors"
	"fmt"

	"kubecdc/change"
	"kubecdc/source/apiclient"
)

// ErrCompacted reports that the API server does not have the state of a resourceVersion any more.
var ErrCompacted = errors.New("the API server has compacted that resourceVersion")

// identitiesPage is how many identities a page has.
const identitiesPage = 500

// Identities visits the identity of each object that a collection had at a resourceVersion; empty: now. It returns the
// resourceVersion.
func (d *Server) Identities(ctx context.Context, s *change.Stream, at change.ResourceVersion,
	visit func(key, uid string, version change.ResourceVersion)) (change.ResourceVersion, error) {
	version, err := d.client.Identities(ctx, s, at, identitiesPage, func(o *apiclient.Object) error {
		visit(o.Key(), o.UID, o.Version)
		return nil
	})
	if apiclient.IsGone(err) {
		err = fmt.Errorf("%w: %w", ErrCompacted, err)
	}
	return version, err
}
