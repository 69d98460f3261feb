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

	"kubecdc/config"
	"kubecdc/internal/plain"
	"kubecdc/internal/startup"
	"kubecdc/setup"
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
	*requester // the checkpoint; its store is nil if that can't be read
	verify.Comparison
	skipped []verify.Result
}

func openVerification(c *cobra.Command, resources []string, identities bool) (_ *verification, err error) {
	ctx := c.Context()
	settings, connection, _, err := config.Read(os.Environ(), c.Flags())
	if err != nil {
		return nil, err
	}
	cluster := setup.NewCluster(connection)
	v := &verification{requester: &requester{settings: settings, cluster: cluster, out: c.OutOrStdout(), report: c.ErrOrStderr()}}
	step := startup.Step{For: "the API server", Limit: setup.OpenLimit, Progress: cluster.Progress}
	err = startup.Once(ctx, step, func(ctx context.Context) error {
		if err := cluster.Identify(ctx, nil); err != nil {
			return err
		}
		return v.selectStreams(ctx, resources)
	})
	if err != nil {
		return nil, err
	}
	if v.Log, err = setup.OpenLog(ctx, c.Name(), settings, cluster.Cluster); err != nil {
		return nil, err
	}
	if !identities {
		v.Hash = verify.NewHash()
	}
	v.Server, v.Copies = cluster.Server, []verify.Copy{verify.Log(v.Log, v.Streams, v.Hash)}
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
	v.Store, v.Copies = v.store, append(v.Copies, verify.Inventory(v.store))
	return nil
}

func (v *verification) close() {
	v.Log.Close()
	if v.store != nil {
		v.store.Close()
	}
}

// selectStreams finds the streams that are exported, of some resources or of all.
func (v *verification) selectStreams(ctx context.Context, resources []string) error {
	plan, err := setup.ExportConfig(v.settings)
	if err != nil {
		return err
	}
	v.Rules, v.NoUpdates = &plan, plan.Content.NoUpdates
	served, err := v.cluster.Server.Served(ctx)
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
		aggregated, err := discovery.Aggregated(ctx, v.cluster.Server.Client(), r)
		if err != nil {
			return err
		}
		for _, s := range plan.StreamsOf(r) {
			if aggregated {
				v.skipped = append(v.skipped, verify.Result{Stream: s.ID(), Differences: []verify.Difference{},
					Problem: "its API server is aggregated, and may not know the state at a resourceVersion"})
				continue
			}
			v.Streams = append(v.Streams, s)
		}
	}
	return nil
}

func (v *verification) run(ctx context.Context, out *output, repair bool) error {
	var after int64
	if repair {
		var err error
		if v.store == nil {
			return errNoRepair
		}
		if after, err = verify.Repaired(ctx, v.store); err != nil {
			return err
		}
	}
	all, err := v.Results(ctx)
	if err != nil {
		return err
	}
	if repair && verify.Differing(all) > 0 {
		requests, err := verify.Repairs(v.Streams, all, after)
		if err == nil {
			err = v.ask(ctx, requests, true)
		}
		if err != nil {
			return err
		}
		if all, err = v.compareRepaired(ctx); err != nil {
			return err
		}
	}
	if err := printVerified(v.out, out, append(all, v.skipped...)); err != nil {
		return err
	}
	if n := verify.Differing(all); n > 0 {
		return objectsDiffer(n)
	}
	if i := slices.IndexFunc(all, func(r verify.Result) bool { return r.Problem != "" }); i >= 0 {
		return fmt.Errorf("the %s of %s was not compared: %s", all[i].In, all[i].Stream, all[i].Problem)
	}
	return nil
}

// checkpointLag is how long the checkpoint may take to have what the log has: a repair is answered once the log has it.
const checkpointLag = 15 * time.Second

// compareRepaired compares until nothing differs, or the checkpoint must have what was repaired.
func (v *verification) compareRepaired(ctx context.Context) ([]verify.Result, error) {
	for limit := time.Now().Add(checkpointLag); ; {
		all, err := v.Results(ctx)
		if err != nil || verify.Differing(all) == 0 || !v.shared || time.Now().After(limit) {
			return all, err
		}
		if err := untilNextLook(ctx); err != nil {
			return nil, err
		}
	}
}

var errNoRepair = errors.New("the checkpoint can't be read, through which exporters are asked to repair")
