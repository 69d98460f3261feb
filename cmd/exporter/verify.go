package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/config"
	"kubecdc/export"
	"kubecdc/internal/plain"
	"kubecdc/internal/rawjson"
	"kubecdc/internal/startup"
	"kubecdc/sinks"
	"kubecdc/source/discovery"
	"kubecdc/verify"
)

const verifyHelp = `Compare what the log has with the cluster, object by object.

Each collection is listed as it was at one resourceVersion, the position that the log
has now, and compared with:
  topic       the last record of each key up to there (KUBECDC_SINK=kafka)
  table       the rows of kubecdc_log.objects (KUBECDC_SINK=postgres)
  inventory   what the checkpoint holds of each object
Objects that are missing there, stale (another version, or another object of that
name), extra, changed (the right version with another content; not looked for in the
inventory) or apart (on several partitions) are printed, and the exit code is 1; it
is above 1 if they can't be compared. An exporter may run meanwhile: newer changes are left out, and what differs is looked at
twice. BEHIND is how long ago the log was last known to be complete, by an event or a
bookmark, of which the API server sends one a minute: if it grows, no exporter runs.
With --identities only metadata is listed, and no content compared. A checkpoint in an
SQLite file can be read only while no exporter runs. Give it the exporter's settings:
IGNORED are objects that are older there only since updates are ignored
(KUBECDC_IGNORE_FIELDS, KUBECDC_OPS).

With --topic-only the cluster is not asked: the log is folded up to the last proof
record of each stream, and compared with the digest in it. Where updates are ignored
only the number of objects can be compared.

With --repair the running exporter writes what differs: a create, update or delete
of each such object, marked as inferred, with "repair:ID" of the signal as its gap.
Its before is what the checkpoint holds of the object, or null. Then all is compared
again.

  exporter verify
  exporter verify pods deployments.apps -o json
  exporter verify --topic-only
  exporter verify --repair`

func newVerify() *cobra.Command {
	var out output
	c := withSettings(withOutput(&cobra.Command{Use: "verify [RESOURCE...] [flags]", Short: "Compare what the log has with the cluster",
		Long: verifyHelp, Annotations: compares}, &out), ofVerify)
	identities := c.Flags().Bool("identities", false, "Compare uids and resourceVersions only, and not what objects contain.")
	topicOnly := c.Flags().Bool("topic-only", false, "Compare the log with the proof records in it, without the cluster.")
	repair := c.Flags().Bool("repair", false, "Let the running exporter write what differs.")
	c.RunE = func(c *cobra.Command, resources []string) error {
		if *topicOnly && *repair {
			return &usageError{"--topic-only compares without the cluster, so it can't be combined with --repair"}
		}
		if *topicOnly {
			if err := ofLog.refuse(c, " --topic-only"); err != nil {
				return err
			}
			return verifyProofs(c, &out, resources)
		}
		v, err := openVerification(c, resources, *identities)
		if err != nil {
			return err
		}
		defer v.close()
		return v.run(c.Context(), &out, *repair)
	}
	return c
}

func verifyProofs(c *cobra.Command, out *output, resources []string) error {
	reader, err := openReader(c.Context(), c)
	if err != nil {
		return err
	}
	defer reader.Close()
	var known []string
	all, err := verify.Proofs(c.Context(), reader, func(id string) bool {
		known = append(known, id)
		plural, _, _ := strings.Cut(id, ".")
		return len(resources) == 0 || slices.Contains(resources, id) || slices.Contains(resources, plural)
	})
	if err != nil {
		return err
	}
	slices.Sort(known)
	if _, err := resourcesNamed(resources, slices.Compact(known), "the log has no proof records of"); err != nil {
		return err
	}
	if err := printProven(c.OutOrStdout(), out, all); err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("nothing was compared: KUBECDC_PROOF_INTERVAL says how often proofs are made")
	}
	differ := slices.DeleteFunc(all, func(p verify.Proven) bool { return p.Equal || p.Problem != "" })
	if len(differ) > 0 {
		return &differsError{fmt.Sprintf("the log of %d streams differs from its last proof: exporter verify names the objects", len(differ))}
	}
	return nil
}

// verification is one run of exporter verify.
type verification struct {
	*asking // the checkpoint; its store is nil if that can't be read
	reader  sinks.Reader
	copies  []verify.Copy
	streams []*change.Stream
	skipped []verify.Result
	plan    *export.Config
	hash    *verify.Hash // nil: contents are not compared
}

func openVerification(c *cobra.Command, resources []string, identities bool) (_ *verification, err error) {
	ctx := c.Context()
	settings, connection, _, err := config.Read(os.Environ(), c.Flags())
	if err != nil {
		return nil, err
	}
	cluster := newTarget(connection)
	v := &verification{asking: &asking{settings: settings, cluster: cluster, out: c.OutOrStdout(), report: c.ErrOrStderr()}}
	step := startup.Step{For: "the API server", Limit: openLimit, Progress: cluster.reach.progress}
	err = startup.Once(ctx, step, func(ctx context.Context) error {
		if err := cluster.identify(ctx, nil); err != nil {
			return err
		}
		return v.selectStreams(ctx, resources)
	})
	if err != nil {
		return nil, err
	}
	if v.reader, err = openLog(ctx, c, settings, cluster.Cluster); err != nil {
		return nil, err
	}
	name := "topic"
	if _, tables := v.reader.(sinks.TableReader); tables {
		name = "table"
	}
	if !identities {
		v.hash = verify.NewHash()
	}
	v.copies = []verify.Copy{verify.Log(name, v.reader, v.streams, v.hash)}
	return v, v.openInventory(ctx)
}

// openInventory adds the inventory to the copies. An SQLite file that can't be read, as that of an exporter that runs, is left out.
func (v *verification) openInventory(ctx context.Context) error {
	if err := v.open(ctx); err != nil {
		if strings.HasPrefix(v.settings.Checkpoint.Location.Reveal(), "postgres") {
			v.close()
			return err
		}
		plain.Fprintf(v.report, "the inventory is left out: %s\n", config.Redact(err.Error()))
		return nil
	}
	v.copies = append(v.copies, verify.Inventory(inventoryName, v.store))
	return nil
}

func (v *verification) close() {
	v.reader.Close()
	if v.store != nil {
		v.store.Close()
	}
}

// selectStreams finds the streams that are exported, of some resources or of all.
func (v *verification) selectStreams(ctx context.Context, resources []string) error {
	plan, err := exportConfig(v.settings)
	if err != nil {
		return err
	}
	v.plan = &plan
	served, err := v.cluster.server.Served(ctx)
	if err != nil {
		return err
	}
	selected, unknown := discovery.Select(plan.Resources, served)
	if len(unknown) > 0 {
		return discovery.Unknown(unknown, served)
	}
	var ids []string
	for _, r := range selected {
		ids = append(ids, r.ID())
	}
	if resources, err = resourcesNamed(resources, ids, "the export has no"); err != nil {
		return err
	}
	for _, r := range selected {
		if len(resources) > 0 && !slices.Contains(resources, r.ID()) {
			continue
		}
		aggregated, err := discovery.Aggregated(ctx, v.cluster.server.Client(), r)
		if err != nil {
			return err
		}
		for _, s := range plan.StreamsOf(r) {
			if aggregated {
				v.skipped = append(v.skipped, verify.Result{Stream: s.ID(), Differences: []verify.Difference{},
					Problem: "its API server is aggregated, and may not know the state at a resourceVersion"})
				continue
			}
			v.streams = append(v.streams, s)
		}
	}
	return nil
}

func (v *verification) run(ctx context.Context, out *output, repair bool) error {
	var after int64
	if repair {
		var err error
		if after, err = v.repaired(ctx); err != nil {
			return err
		}
	}
	all, err := v.compare(ctx)
	if err != nil {
		return err
	}
	if repair && differing(all) > 0 {
		if err := v.repair(ctx, all, after); err != nil {
			return err
		}
		if all, err = v.compareRepaired(ctx); err != nil {
			return err
		}
	}
	if err := printVerified(v.out, out, append(all, v.skipped...)); err != nil {
		return err
	}
	if n := differing(all); n > 0 {
		return objectsDiffer(n)
	}
	if i := slices.IndexFunc(all, func(r verify.Result) bool { return r.Problem != "" }); i >= 0 {
		return fmt.Errorf("the %s of %s was not compared: %s", all[i].In, all[i].Stream, all[i].Problem)
	}
	return nil
}

func (v *verification) compare(ctx context.Context) ([]verify.Result, error) {
	all := []verify.Result{}
	for _, s := range v.streams {
		for _, c := range v.copies {
			r, err := verify.Stream(ctx, v.live(c), c, s)
			if err != nil {
				return nil, fmt.Errorf("compare %s: %w", s.ID(), err)
			}
			if err := v.takeOutIgnored(ctx, r, s); err != nil {
				return nil, err
			}
			all = append(all, *r)
		}
	}
	return all, nil
}

// live reads the API server for the comparison with a copy. The inventory is compared without contents; so are objects in which values
// are hashed, if the key of the hashes can't be read.
func (v *verification) live(c verify.Copy) verify.Live {
	return func(ctx context.Context, s *change.Stream, at change.ResourceVersion, visit func(string, verify.Object)) error {
		if v.hash == nil || c.Name == inventoryName || v.store == nil && v.plan.Redactor(s.Resource) != nil {
			_, err := v.cluster.server.Identities(ctx, s, at, func(key, uid string, version change.ResourceVersion) {
				visit(key, verify.Object{UID: uid, Version: version})
			})
			return err
		}
		return v.bodies(ctx, s, at, func(key string, version change.ResourceVersion, body []byte) {
			uid, _ := rawjson.Text(rawjson.Member(rawjson.Member(body, "metadata"), "uid"))
			visit(key, v.hash.Object(uid, version, body, &s.Resource))
		})
	}
}

// bodies reads the objects of the API server as they are exported.
func (v *verification) bodies(ctx context.Context, s *change.Stream, at change.ResourceVersion,
	visit func(string, change.ResourceVersion, []byte)) error {
	if v.store != nil {
		if err := v.plan.UseKey(ctx, v.store); err != nil {
			return err
		}
	}
	return v.cluster.server.Bodies(ctx, s, at, v.plan.MetadataOnly(s.Resource), v.plan.Redactor(s.Resource), visit)
}

// checkpointLag is how long the checkpoint may take to have what the log has: a repair is answered once the log has it.
const checkpointLag = 15 * time.Second

// compareRepaired compares until nothing differs, or the checkpoint must have what was repaired.
func (v *verification) compareRepaired(ctx context.Context) ([]verify.Result, error) {
	for limit := time.Now().Add(checkpointLag); ; {
		all, err := v.compare(ctx)
		if err != nil || differing(all) == 0 || !v.shared || time.Now().After(limit) {
			return all, err
		}
		if err := untilNextLook(ctx); err != nil {
			return nil, err
		}
	}
}

// takeOutIgnored takes out of a result what differs only by updates that the settings ignore.
func (v *verification) takeOutIgnored(ctx context.Context, r *verify.Result, s *change.Stream) error {
	filter := verify.Filter{Updates: v.plan.Content.NoUpdates}
	if mask := v.plan.Mask(s.Resource); mask != nil {
		filter.Counts = mask.Counts
	}
	return filter.TakeOut(ctx, r, s, v.reader, func(ctx context.Context, at change.ResourceVersion,
		visit func(string, change.ResourceVersion, []byte)) error {
		return v.bodies(ctx, s, at, visit)
	})
}

func differing(all []verify.Result) (n int) {
	for _, r := range all {
		n += len(r.Differences)
	}
	return n
}

// inventoryName is the name of the copy that the checkpoint has.
const inventoryName = "inventory"

var errNoRepair = errors.New("the checkpoint can't be read, through which exporters are asked to repair")
