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
	Store     checkpoint.Store // nil: it can't be read
	Rules     Rules
	NoUpdates bool  // the log has none
	Hash      *Hash // nil: contents are not compared
}

// Rules are what the settings say about the content of objects in the log.
type Rules interface {
	MetadataOnly(change.Resource) bool
	Redactor(change.Resource) *redact.Redactor
	Mask(change.Resource) *redact.Mask
	// UseKey reads the key of the hashes.
	UseKey(context.Context, checkpoint.Pins) error
}

func (c *Comparison) Results(ctx context.Context) ([]Result, error) {
	all := []Result{}
	for _, s := range c.Streams {
		for _, copied := range c.Copies {
			r, err := Stream(ctx, c.live(copied), copied, s)
			if err != nil {
				return nil, fmt.Errorf("compare %s: %w", s.ID(), err)
			}
			if err := c.takeOutIgnored(ctx, r, s); err != nil {
				return nil, err
			}
			all = append(all, *r)
		}
	}
	return all, nil
}

// live reads the API server for the comparison with a copy. The inventory is compared without contents; so are objects in which values
// are hashed, if the key of the hashes can't be read.
func (c *Comparison) live(copied Copy) Live {
	return func(ctx context.Context, s *change.Stream, at change.ResourceVersion, visit func(string, Object)) error {
		if c.Hash == nil || copied.Name == InventoryName || c.Store == nil && c.Rules.Redactor(s.Resource) != nil {
			_, err := c.Server.Identities(ctx, s, at, func(key, uid string, version change.ResourceVersion) {
				visit(key, Object{UID: uid, Version: version})
			})
			return err
		}
		return c.bodies(s)(ctx, at, func(key string, version change.ResourceVersion, body []byte) {
			uid, _ := rawjson.Text(rawjson.Member(rawjson.Member(body, "metadata"), "uid"))
			visit(key, c.Hash.Object(uid, version, body, &s.Resource))
		})
	}
}

func (c *Comparison) bodies(s *change.Stream) Bodies {
	return func(ctx context.Context, at change.ResourceVersion, visit func(string, change.ResourceVersion, []byte)) error {
		if c.Store != nil {
			if err := c.Rules.UseKey(ctx, c.Store); err != nil {
				return err
			}
		}
		return c.Server.Bodies(ctx, s, at, c.Rules.MetadataOnly(s.Resource), c.Rules.Redactor(s.Resource), visit)
	}
}

// takeOutIgnored takes out of a result what differs only by updates that the settings ignore.
func (c *Comparison) takeOutIgnored(ctx context.Context, r *Result, s *change.Stream) error {
	ignored := Ignored{Updates: c.NoUpdates}
	if mask := c.Rules.Mask(s.Resource); mask != nil {
		ignored.Counts = mask.Counts
	}
	return ignored.TakeOut(ctx, r, s, c.Log, c.bodies(s))
}

func Differing(all []Result) (n int) {
	for _, r := range all {
		n += len(r.Differences)
	}
	return n
}
