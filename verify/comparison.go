package verify

import (
	"context"
	"fmt"

	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/internal/rawjson"
	"kubecdc/redact"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
)

// Comparison compares copies of streams with the API server.
type Comparison struct {
	Streams   []*change.Stream
	Copies    []Copy
	Log       sinks.Reader
	Server    *discovery.Server
	Store     checkpoint.Store // nil: the checkpoint can't be read
	Rules     Rules
	NoUpdates bool  // the log has no updates
	Hash      *Hash // nil: contents are not compared
}

// Rules are the settings about the content of objects in the log.
type Rules interface {
	MetadataOnly(change.Resource) bool
	Redactor(change.Resource) *redact.Redactor
	Mask(change.Resource) *redact.Mask
	// UseKey reads the key of the hashes.
	UseKey(context.Context, checkpoint.Pins) error
}

// Results compares every stream in every copy.
func (c *Comparison) Results(ctx context.Context) ([]Result, error) {
	all := []Result{}
	if c.Hash != nil && c.Store != nil {
		if err := c.useKey(ctx); err != nil {
			return nil, err
		}
		c.Hash.rules = c.Rules
	}
	for _, s := range c.Streams {
		for _, copied := range c.Copies {
			r, err := Stream(ctx, c.live(copied), copied, s)
			if err != nil {
				return nil, fmt.Errorf("compare %s: %w", s.ID(), err)
			}
			if err := RemovePending(ctx, r, s, c.Log); err != nil {
				return nil, err
			}
			if err := c.removeIgnored(ctx, r, s); err != nil {
				return nil, err
			}
			all = append(all, *r)
		}
	}
	return all, nil
}

func (c *Comparison) useKey(ctx context.Context) error {
	if c.Store == nil {
		return nil
	}
	return c.Rules.UseKey(ctx, c.Store)
}

// live returns how to read the API server for the comparison with a copy. It reads identities without contents for the inventory.
// It also does so for resources with hashed values, if the key of the hashes can't be read.
func (c *Comparison) live(copied Copy) Live {
	return func(ctx context.Context, s *change.Stream, version change.ResourceVersion, visit func(string, Object)) error {
		if c.Hash == nil || copied.Name == InventoryName || c.Store == nil && c.Rules.Redactor(s.Resource) != nil {
			_, err := c.Server.Identities(ctx, s, version, func(key, uid string, version change.ResourceVersion) {
				visit(key, Object{UID: uid, Version: version})
			})
			return err
		}
		return c.bodies(s)(ctx, version, func(key string, version change.ResourceVersion, body []byte) {
			uid, _ := rawjson.Text(rawjson.Member(rawjson.Member(body, "metadata"), "uid"))
			visit(key, c.Hash.Object(uid, version, body, &s.Resource))
		})
	}
}

func (c *Comparison) bodies(s *change.Stream) Bodies {
	return func(ctx context.Context, version change.ResourceVersion, visit func(string, change.ResourceVersion, []byte)) error {
		if err := c.useKey(ctx); err != nil {
			return err
		}
		return c.Server.Bodies(ctx, s, version, c.Rules.MetadataOnly(s.Resource), c.Rules.Redactor(s.Resource), visit)
	}
}

// removeIgnored removes the differences that exist only because the settings ignore updates.
func (c *Comparison) removeIgnored(ctx context.Context, r *Result, s *change.Stream) error {
	ignored := Ignored{Updates: c.NoUpdates}
	if mask := c.Rules.Mask(s.Resource); mask != nil {
		ignored.Relevant = mask.Counts
	}
	return ignored.RemoveFrom(ctx, r, s, c.Log, c.bodies(s))
}

// Differing returns the number of differences in all results.
func Differing(all []Result) (n int) {
	for _, r := range all {
		n += len(r.Differences)
	}
	return n
}
