package past

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kubecdc/cmd/exporter/cli"
	"kubecdc/config"
	"kubecdc/internal/cells"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/internal/suggest"
	"kubecdc/query"
	"kubecdc/query/difference"
	"kubecdc/query/timeline"
	"kubecdc/restore"
	"kubecdc/sinks"
)

var restoreHelp = `Show how objects get back the state that they had, from the log alone, or put them back.

  exporter restore deploy/web -n shop --at 2h
  exporter restore cm/app -n shop --at 10:30 -o yaml | kubectl replace -f -

It shows what would change, and the command that does it: kubectl replace, create if the
object is gone, or delete if it did not exist then. replace also removes what was added
since. kubectl apply would leave that in.

  exporter restore -n shop --at 2h
  exporter restore deploy,cm -n shop --at 2h --execute

A selection is shown with what was created, changed and deleted since, by whom. With
--execute it writes to the API server, with the kubeconfig's rights. It shows what a dry
run says, and asks. What has changed since it was shown is not overwritten. A second run
does what is left. What was created since is deleted only with --prune.

What servers and controllers set is not put back: the address of a Service, the volume of
a claim, the node of a Pod, the replicas that an autoscaler sets, a dead owner. Nor are
fields that the settings ignore.

An object is refused if the log lacks a part of it (redacted, only metadata, too large).
` + pastHelp

// restoring is the command exporter restore.
type restoring struct {
	pastFlags
	moment string
	then   timeline.Target // what moment means

	execute, yes, prune bool
}

// NewRestore returns the command exporter restore.
func NewRestore() *cobra.Command {
	p := &restoring{}
	c := &cobra.Command{Use: "restore --at TIME " + cli.ObjectsUse + " [flags]",
		Short: "Show how objects get back their earlier state, or put them back",
		Long:  restoreHelp,
		RunE:  func(c *cobra.Command, args []string) error { return p.explained(p.run(c.Context(), c, args)) }}
	c.Flags().StringVar(&p.moment, "at", "", "the moment: a time, how long ago (2h), a resourceVersion, or a checkpoint")
	c.Flags().BoolVar(&p.execute, "execute", false, "write to the API server, after a question")
	c.Flags().BoolVar(&p.yes, "yes", false, "with --execute: do not ask")
	c.Flags().BoolVar(&p.prune, "prune", false, "with --execute: delete what was created since, as the preview names it")
	p.moments(c)
	return p.flags(c, "diff", "yaml", "json")
}

func (p *restoring) run(ctx context.Context, c *cobra.Command, args []string) error {
	if p.moment == "" {
		return fault.Usage("restore needs --at: a time, how long ago (2h), a resourceVersion, or a checkpoint")
	}
	var err error
	if p.then, err = p.target("--at", p.moment); err != nil {
		return err
	}
	r, objects, err := p.open(ctx, c, args)
	if err != nil {
		return err
	}
	defer r.Close()
	states, err := readStates(ctx, c, r, objects, p.then, timeline.Target{})
	if err != nil {
		return err
	}
	p.remarkMoment(c.ErrOrStderr(), "--at", p.moment, p.then, states[0].Moment)
	p.then = states[0].Moment
	if err := p.printCoverage(c.ErrOrStderr(), states[0].Moment, states[0].Coverage, states[0].Missing); err != nil {
		return err
	}
	if len(objects.Names) != 1 || p.execute {
		return p.runAll(ctx, c, r, objects, states)
	}
	then, err1 := onlyObject(states[0])
	now, err2 := onlyObject(states[1])
	if err := cmp.Or(err1, err2); err != nil {
		return err
	}
	if then == nil && now == nil {
		return notFound(ctx, r, &objects, states[1].Coverage,
			fmt.Sprintf("%s did not exist at %s, and does not now%s", objects.Names[0], p.then,
				inNamespace(objects.Namespace)))
	}
	plan, err := p.plan(ctx, c, r, &objects, then, now)
	if err != nil {
		return err
	}
	if p.Format != "diff" {
		return p.manifest(c, plan, objects.Names[0])
	}
	return p.explain(c, plan, then, now)
}

// onlyObject returns the object of a state, or nil. It returns a fault.Usage if there are several, in different namespaces.
func onlyObject(s *query.State) (found *query.Object, err error) {
	err = s.Objects(func(o *query.Object) error {
		if found != nil {
			return fault.Usagef("%s/%s exists in several namespaces: name one by -n", o.Resource, o.Name)
		}
		found = o
		return nil
	})
	return found, err
}

func (p *restoring) plan(ctx context.Context, c *cobra.Command, r sinks.Reader, objects *sinks.Objects,
	then, now *query.Object) (*restore.Plan, error) {
	known, err := r.Resources(ctx)
	if err != nil {
		return nil, err
	}
	others := newOtherObjects(ctx, r, known)
	others.namespace = cmp.Or(then, now).Namespace
	o := restore.Options{Ignored: ignoredPaths(c, objects.Resources[0]), Owner: others.uidOf, Scaled: now != nil &&
		others.scale(now)}
	plan, err := restore.NewPlan(objects.Resources[0], then, now, o)
	return plan, cmp.Or(others.failed, err)
}

// ignoredPaths returns the fields of a resource that the settings of this environment ignore. Paths with a wildcard are left out.
func ignoredPaths(c *cobra.Command, resource string) (paths []string) {
	settings, _, err := config.Load(os.Environ(), c.Flags())
	if err != nil {
		return nil
	}
	for _, field := range settings.Records.IgnoreFields {
		if id, path, _ := strings.Cut(field, ":"); id == resource && !strings.Contains(path, "*") {
			paths = append(paths, path)
		}
	}
	return paths
}

// otherObjects reads the present state of other objects than the one that is put back.
type otherObjects struct {
	ctx       context.Context
	reader    sinks.Reader
	known     []string // resources of the log
	namespace string
	failed    error                      // the first error
	seen      map[string][]*query.Object // what was read, by the question
}

func newOtherObjects(ctx context.Context, r sinks.Reader, known []string) *otherObjects {
	return &otherObjects{ctx: ctx, reader: r, known: known, seen: map[string][]*query.Object{}}
}

// read reads each question once: a selection asks the same for each of its objects.
func (r *otherObjects) read(objects sinks.Objects) (found []*query.Object) {
	asked := fmt.Sprint(objects)
	if found, isRead := r.seen[asked]; isRead {
		return found
	}
	states, err := query.ReadStates(r.ctx, r.reader, query.Question{Objects: objects}, timeline.Target{})
	if err == nil {
		err = states[0].Objects(func(o *query.Object) error { found = append(found, copied(o)); return nil })
	}
	r.failed, r.seen[asked] = cmp.Or(r.failed, err), found
	return found
}

// scale reports whether an autoscaler sets an object's replicas.
func (r *otherObjects) scale(target *query.Object) bool {
	const scalers = "horizontalpodautoscalers.autoscaling"
	if !slices.Contains(r.known, scalers) {
		return false
	}
	return slices.ContainsFunc(r.read(sinks.Objects{Resources: []string{scalers}, Namespace: r.namespace}),
		func(o *query.Object) bool {
			ref := cells.MemberAt(cells.Decoded(o.Body), "spec.scaleTargetRef")
			like := suggest.Like(strings.ToLower(cells.TextOf(cells.MemberAt(ref, "kind"))), []string{target.Resource})
			return len(like) == 1 && cells.TextOf(cells.MemberAt(ref, "name")) == target.Name
		})
}

// uidOf returns the uid of an owner, or "" if it is gone.
func (r *otherObjects) uidOf(owner restore.Owner) string {
	kind := owner.Kind
	if group, _, found := strings.Cut(owner.APIVersion, "/"); found {
		kind += "." + group
	}
	like := suggest.Like(kind, r.known)
	if len(like) != 1 {
		return ""
	}
	for _, found := range r.read(sinks.Objects{Resources: like, Names: []string{like[0] + "/" + owner.Name}}) {
		if found.Namespace == r.namespace || found.Namespace == "" {
			return found.UID
		}
	}
	return ""
}

// manifest prints the manifest alone.
func (p *restoring) manifest(c *cobra.Command, plan *restore.Plan, name string) error {
	switch plan.Verb {
	case "":
		return fmt.Errorf("%s is as it was: there is nothing to put back", name)
	case "delete":
		return fmt.Errorf("%s did not exist then, so it has no manifest: kubectl delete removes it", name)
	}
	body, err := json.Marshal(plan.Manifest)
	if err != nil {
		return err
	}
	text, err := p.Indented(json.RawMessage(body))
	if err != nil {
		return err
	}
	return cli.Write(c.OutOrStdout(), text)
}

// explain prints what would change, and the command.
func (p *restoring) explain(c *cobra.Command, plan *restore.Plan, then, now *query.Object) error {
	o := cmp.Or(then, now)
	object := o.Resource + "/" + o.Name
	if o.Namespace != "" {
		object += " -n " + o.Namespace
	}
	colours, out := p.newColours(c.OutOrStdout()), c.OutOrStdout()
	text := plain.Own("")
	switch plan.Verb {
	case "":
		text = plain.Sprintf("%s is as it was: there is nothing to put back\n", object)
	case "delete":
		text = plain.Sprintf("%s did not exist then. This deletes it:\n  kubectl delete %s\n", object, object)
	case "create":
		text = plain.Sprintf("%s is gone:\n", object)
	default:
		lines, err := difference.Lines([]byte(cells.Compact(plan.Present)), []byte(cells.Compact(plan.Manifest)), false)
		if err != nil {
			return err
		}
		width := unlimited
		if p.screen != nil {
			width = p.screen.Columns()
		}
		text = plain.Sprintf("%s differs:\n", object) + differences(colours, lines, width)
	}
	if plan.Manifest != nil {
		text += plain.Sprintf("This puts it back:\n  %s -o yaml | kubectl %s -f -\n", p.command(c, object), plan.Verb)
	}
	for _, path := range plan.Left {
		text += plain.Sprintf("# not put back, since others set it: %s\n", path)
	}
	if err := cli.Write(out, text); err != nil {
		return err
	}
	if p.screen != nil {
		return p.writeRemarks(p.screen)
	}
	return nil
}

// command returns this command with a time that does not change.
func (p *restoring) command(c *cobra.Command, object string) string {
	program, moment := "exporter", p.moment
	if filepath.Base(os.Args[0]) == program {
		program = os.Args[0] // as it was called
	}
	if !p.then.Happened.IsZero() {
		moment = p.then.Happened.UTC().Format(time.RFC3339Nano)
	}
	text := program + " restore " + object + " --at " + moment
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "at" && f.Name != "namespace" && f.Name != "output" && f.Name != "all-namespaces" {
			text += " --" + f.Name + "=" + f.Value.String()
		}
	})
	return text
}
