package past

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubecdc/cmd/exporter/cli"
	"kubecdc/config"
	"kubecdc/internal/cells"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
	"kubecdc/internal/suggest"
	"kubecdc/query"
	"kubecdc/query/timeline"
	"kubecdc/query/who"
	"kubecdc/restore"
	"kubecdc/setup"
	"kubecdc/sinks"
)

// restored is an object of a selection that is put back.
type restored struct {
	restore.Place
	then, now *query.Object  // now is what the log has, and with --execute what the API server has
	live      map[string]any // what the API server has
	users     []string
	plan      *restore.Plan
	refused   error // why it is not put back
	depth     int   // owners come before what they own
}

// restoringAll puts a selection back.
type restoringAll struct {
	*restoring
	c       *cobra.Command
	reader  sinks.Reader
	objects sinks.Objects
	all     []*restored
	skipped map[string]int  // what comes back by itself, by the reason
	server  *restore.Server // with --execute
	known   []string        // resources of the log
	others  *otherObjects
}

// ephemeral resources are never put back.
var ephemeral = []string{"events", "events.events.k8s.io", "leases.coordination.k8s.io", "endpoints",
	"endpointslices.discovery.k8s.io", "controllerrevisions.apps", "componentstatuses", "nodes"}

// byItself says who makes an object again, or "".
func byItself(o *query.Object) string {
	if slices.Contains(ephemeral, o.Resource) {
		return o.Resource + ", which servers and controllers write"
	}
	owners, _ := cells.MemberAt(cells.Decoded(o.Body), "metadata.ownerReferences").([]any)
	for _, each := range owners {
		owner, _ := each.(map[string]any)
		kind := cells.TextOf(owner["kind"])
		if owner["controller"] == true && slices.Contains([]string{"ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job",
			"CronJob", "Node", "ReplicationController"}, kind) {
			return o.Resource + " of a " + kind + ", which its controller makes"
		}
	}
	return ""
}

// managedBy names a program that may put an object back by itself, by its mark.
func managedBy(o *query.Object) string {
	metadata := cells.MemberAt(cells.Decoded(o.Body), "metadata")
	text := func(in, name string) string {
		members, _ := cells.MemberAt(metadata, in).(map[string]any)
		return cells.TextOf(members[name])
	}
	switch {
	case text("annotations", "argocd.argoproj.io/tracking-id") != "":
		return "Argo CD"
	case text("labels", "kustomize.toolkit.fluxcd.io/name") != "", text("labels", "helm.toolkit.fluxcd.io/name") != "":
		return "Flux"
	case text("labels", "app.kubernetes.io/managed-by") == "Helm":
		return "Helm"
	}
	return ""
}

// runAll answers for a selection of objects.
func (p *restoring) runAll(ctx context.Context, c *cobra.Command, r sinks.Reader, objects sinks.Objects,
	states []*query.State) error {
	if objects.Namespace == "" && len(objects.Resources) == 0 {
		return fault.Usage("restore needs a selection: a namespace (-n shop), types, names or both")
	}
	if p.screen = nil; !p.incomplete {
		if err := p.checkSpan(ctx, r, &objects, states[0]); err != nil {
			return err
		}
	}
	all := &restoringAll{restoring: p, c: c, reader: r, objects: objects, skipped: map[string]int{}}
	var err error
	if all.known, err = r.Resources(ctx); err != nil {
		return err
	}
	all.others = newOtherObjects(ctx, r, all.known)
	if p.execute {
		if all.server, err = all.connect(ctx); err != nil {
			return err
		}
	}
	requests, err := who.ReadRequests(ctx, r, &objects, states[0].Moment.Happened)
	if err != nil {
		return err
	}
	if err := all.addNamespace(ctx, states[0].Moment); err != nil {
		return err
	}
	if err := query.Differences(states[0], states[1], func(then, now *query.Object) error {
		return all.add(then, now, query.UsersBetween(requests, then, now))
	}); err != nil {
		return err
	}
	all.sort()
	for _, o := range all.all {
		if err := all.planOf(ctx, o, true); err != nil {
			return err
		}
	}
	switch {
	case p.Format != "diff":
		return all.manifests()
	case p.execute:
		return all.execution(ctx)
	}
	return all.preview()
}

// checkSpan refuses an answer if the log lacks changes of the selection between then and now.
func (p *restoring) checkSpan(ctx context.Context, r sinks.Reader, objects *sinks.Objects, then *query.State) error {
	since := then.Moment.Happened
	for _, c := range then.Coverage {
		if since.IsZero() || !c.Known.IsZero() && c.Known.Before(since) {
			since = c.Known
		}
	}
	coverage, missing, err := timeline.Covered(ctx, r, objects, since)
	if err != nil || len(missing) == 0 {
		return err
	}
	return refusal(timeline.Target{}, coverage, missing)
}

// addNamespace adds the selected namespace if it is gone.
func (p *restoringAll) addNamespace(ctx context.Context, then timeline.Target) error {
	if p.objects.Namespace == "" || !slices.Contains(p.known, "namespaces") {
		return nil
	}
	states, err := query.ReadStates(ctx, p.reader, query.Question{Objects: sinks.Objects{Resources: []string{"namespaces"},
		Names: []string{"namespaces/" + p.objects.Namespace}}}, then, timeline.Target{})
	if err != nil {
		return err
	}
	now, err := onlyObject(states[1])
	if err != nil || now != nil {
		return err
	}
	return query.Differences(states[0], states[1], func(then, _ *query.Object) error { return p.add(then, nil, nil) })
}

func (p *restoringAll) add(then, now *query.Object, users []string) error {
	o := cmp.Or(then, now)
	if reason := byItself(o); reason != "" {
		p.skipped[reason]++
		return nil
	}
	// An object that was made again has a pair for each uid. The new one is compared with the old one.
	for _, other := range p.all {
		if now != nil && then == nil && other.now == nil && other.Resource == o.Resource && other.Name == o.Name &&
			other.Namespace == o.Namespace {
			other.now, other.users = copied(now), slices.Compact(slices.Sorted(slices.Values(append(other.users, users...))))
			return nil
		}
	}
	p.all = append(p.all, &restored{then: copied(then), now: copied(now), users: users, Place: restore.Place{
		APIVersion: cells.TextOf(cells.Decoded(o.Body)["apiVersion"]), Resource: o.Resource, Namespace: o.Namespace,
		Name: o.Name}})
	return nil
}

// copied returns an object that is valid after a visit.
func copied(o *query.Object) *query.Object {
	if o == nil {
		return nil
	}
	own := *o
	own.Body = bytes.Clone(o.Body)
	return &own
}

// sort puts namespaces first, then definitions of resources, then owners before what they own.
func (p *restoringAll) sort() {
	owners := map[string][]string{}
	for _, o := range p.all {
		if o.then != nil {
			all, _ := cells.MemberAt(cells.Decoded(o.then.Body), "metadata.ownerReferences").([]any)
			for _, each := range all {
				owners[o.then.UID] = append(owners[o.then.UID], cells.TextOf(cells.MemberAt(each, "uid")))
			}
		}
	}
	var depth func(uid string, most int) int
	depth = func(uid string, most int) (n int) {
		for _, owner := range owners[uid] {
			if most > 0 {
				n = max(n, 1+depth(owner, most-1))
			}
		}
		return n
	}
	for _, o := range p.all {
		switch {
		case o.Resource == "namespaces":
			o.depth = -2
		case o.Resource == "customresourcedefinitions.apiextensions.k8s.io":
			o.depth = -1
		case o.then != nil:
			o.depth = depth(o.then.UID, 10)
		}
	}
	slices.SortStableFunc(p.all, func(a, b *restored) int { return cmp.Compare(a.depth, b.depth) })
}

// planOf sets the plan of an object. With --execute it compares with what the API server has.
func (p *restoringAll) planOf(ctx context.Context, o *restored, preview bool) (err error) {
	if p.server != nil {
		if o.live, err = p.server.Get(ctx, &o.Place); err != nil {
			return fmt.Errorf("read %s: %w", o, err)
		}
		if o.now = nil; o.live != nil {
			o.now = &query.Object{Resource: o.Resource, Namespace: o.Namespace, Name: o.Name, Body: []byte(cells.Compact(o.live))}
		}
	}
	others := p.others
	others.namespace = o.Namespace
	options := restore.Options{Ignored: ignoredPaths(p.c, o.Resource), Owner: others.uidOf,
		Scaled: o.now != nil && others.scale(o.now)}
	if p.server != nil {
		options.Owner = func(owner restore.Owner) string { return p.ownerNow(ctx, others, owner, preview) }
	}
	o.plan, o.refused = restore.NewPlan(o.Resource, o.then, o.now, options)
	if o.refused == nil && cells.MemberAt(o.live, "metadata.deletionTimestamp") != nil && o.then != nil {
		o.refused = fmt.Errorf("%s is being deleted: once it is gone, a second run creates it", o)
	}
	return others.failed
}

// ownerNow returns the uid that the API server has of an owner. Before the first write that may be an owner yet to be created.
func (p *restoringAll) ownerNow(ctx context.Context, others *otherObjects, owner restore.Owner, preview bool) string {
	kind, group := owner.Kind, ""
	if group, _, _ = strings.Cut(owner.APIVersion, "/"); group != owner.APIVersion {
		kind += "." + group
	}
	like := suggest.Like(kind, p.known)
	if len(like) != 1 {
		return ""
	}
	for _, namespace := range slices.Compact([]string{others.namespace, ""}) {
		found, err := p.server.Get(ctx, &restore.Place{APIVersion: owner.APIVersion, Resource: like[0], Namespace: namespace,
			Name: owner.Name})
		if others.failed = cmp.Or(others.failed, err); found != nil {
			return cells.TextOf(cells.MemberAt(found, "metadata.uid"))
		}
		if preview && slices.ContainsFunc(p.all, func(o *restored) bool {
			return o.then != nil && o.Resource == like[0] && o.Name == owner.Name && o.Namespace == namespace
		}) {
			return "yet-to-be-created"
		}
	}
	return ""
}

func (o *restored) String() string {
	text := o.Resource + "/" + o.Name
	if o.Namespace != "" {
		text += " -n " + o.Namespace
	}
	return text
}

// does reports whether a run writes the object.
func (p *restoringAll) does(o *restored) bool {
	return o.refused == nil && o.plan.Verb != "" && (o.plan.Verb != "delete" || p.prune)
}

func (p *restoringAll) preview() error {
	w := bufio.NewWriter(p.c.OutOrStdout())
	counts := p.describe(w)
	if counts == 0 {
		plain.Fprintf(w, "all is as it was: there is nothing to put back\n")
	} else {
		plain.Fprintf(w, "# --execute puts back %s; -o yaml prints manifests\n", english.Plural(counts, "object", ""))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return p.failures()
}

// describe writes what a run would do, and returns to how many objects.
func (p *restoringAll) describe(w *bufio.Writer) (count int) {
	words := map[string]string{"create": "- %s  deleted since", "replace": "~ %s  changed since", "delete": "+ %s  created since"}
	for _, o := range p.all {
		if o.refused != nil || o.plan.Verb == "" {
			continue
		}
		if p.does(o) {
			count++
		}
		plain.Fprintf(w, words[o.plan.Verb], o)
		if len(o.users) > 0 {
			plain.Fprintf(w, " by %s", strings.Join(o.users, ", "))
		}
		if o.plan.Verb == "delete" && !p.prune {
			plain.Fprintf(w, ": it stays, unless --prune is given")
		}
		if manager := managedBy(cmp.Or(o.then, o.now)); manager != "" {
			plain.Fprintf(w, " (%s may put it back by itself)", manager)
		}
		plain.Fprintf(w, "\n")
		for _, path := range o.plan.Left {
			plain.Fprintf(w, "  # not put back, since others set it: %s\n", path)
		}
	}
	for _, o := range p.all {
		if o.refused != nil {
			plain.Fprintf(w, "! %s: %v\n", o, o.refused)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(p.skipped)) {
		plain.Fprintf(w, "# not put back: %d %s\n", p.skipped[reason], reason)
	}
	plain.Fprintf(w, "# never put back: contents of volumes, values that the log has as hashes, status, Helm's release records\n")
	return count
}

// failures returns an error if objects are refused.
func (p *restoringAll) failures() error {
	n := 0
	for _, o := range p.all {
		if o.refused != nil {
			n++
		}
	}
	if n > 0 {
		return fmt.Errorf("%s can't be put back", english.Plural(n, "object", ""))
	}
	return nil
}

// manifests prints what kubectl create and replace take, in order.
func (p *restoringAll) manifests() error {
	w := bufio.NewWriter(p.c.OutOrStdout())
	for _, o := range p.all {
		if o.refused != nil || o.plan.Manifest == nil {
			continue
		}
		body, err := json.Marshal(o.plan.Manifest)
		if err != nil {
			return err
		}
		text, err := p.Indented(json.RawMessage(body))
		if err != nil {
			return err
		}
		if p.Format == "yaml" {
			plain.Fprintf(w, "---\n# kubectl %s\n", o.plan.Verb)
		}
		if err := cli.Write(w, text); err != nil {
			return err
		}
	}
	for _, o := range p.all {
		if o.refused != nil {
			plain.Fprintf(p.c.ErrOrStderr(), "# %v\n", o.refused)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return p.failures()
}

// connect returns the API server of the user's kubeconfig, if the log is of its cluster.
func (p *restoringAll) connect(ctx context.Context) (*restore.Server, error) {
	_, connection, _, err := config.Read(os.Environ(), p.c.Flags())
	if err != nil {
		return nil, err
	}
	server, err := restore.NewServer(setup.NewCluster(connection).REST)
	if err != nil {
		return nil, err
	}
	others := p.others
	logged := others.uidOf(restore.Owner{APIVersion: "v1", Kind: "Namespace", Name: "kube-system"})
	if others.failed != nil {
		return nil, others.failed
	}
	live, err := server.Get(ctx, &restore.Place{APIVersion: "v1", Resource: "namespaces", Name: "kube-system"})
	if err != nil {
		return nil, fmt.Errorf("read namespace kube-system, which identifies the cluster: %w", err)
	}
	if logged == "" || logged != cells.TextOf(cells.MemberAt(live, "metadata.uid")) {
		return nil, fault.Usagef("--execute writes only to the cluster of the log, and %s is not known to be that: its "+
			"namespace kube-system is not the log's. For another cluster use -o yaml, and kubectl's --context", connection.Origin)
	}
	return server, nil
}

// execution writes after a question, and prints what was done.
func (p *restoringAll) execution(ctx context.Context) error {
	w := bufio.NewWriter(p.c.OutOrStdout())
	count := p.describe(w)
	for _, o := range p.all {
		if p.does(o) && o.depth >= 0 {
			if _, err := p.server.Write(ctx, &o.Place, o.plan, o.live, true); err != nil {
				plain.Fprintf(w, "! a dry run of %s: %v\n", o, err)
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if count == 0 {
		plain.Fprintf(p.c.OutOrStdout(), "nothing was written\n")
		return p.failures()
	}
	if err := p.confirm(count); err != nil {
		return err
	}
	for _, o := range p.all {
		if p.does(o) {
			o.refused = p.write(ctx, o)
			result := o.plan.Verb + "d"
			if o.refused != nil {
				result = "failed: " + o.refused.Error()
			}
			plain.Fprintf(p.c.OutOrStdout(), "%s  %s\n", o, result)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return p.failures()
}

// confirm asks at a terminal. Elsewhere --yes is needed.
func (p *restoringAll) confirm(count int) error {
	if p.yes {
		return nil
	}
	if !screen.IsTerminal(os.Stdin) {
		return fault.Usage("nothing was written: without a terminal --execute needs --yes")
	}
	plain.Fprintf(p.c.ErrOrStderr(), "Write %s? [y/N] ", english.Plural(count, "object", ""))
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if strings.TrimSpace(strings.ToLower(answer)) != "y" {
		return fault.Usage("nothing was written")
	}
	return nil
}

// write puts one object back, at the version that was shown.
func (p *restoringAll) write(ctx context.Context, o *restored) error {
	verb, shown := o.plan.Verb, cells.MemberAt(o.live, "metadata.resourceVersion")
	if err := p.planOf(ctx, o, false); err != nil { // owners have their uid now
		return err
	}
	switch {
	case o.refused != nil:
		return o.refused
	case o.plan.Verb != verb, cells.MemberAt(o.live, "metadata.resourceVersion") != shown:
		return fmt.Errorf("%s has changed since it was shown, and was not overwritten: run it again", o)
	}
	written, err := p.server.Write(ctx, &o.Place, o.plan, o.live, false)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%s has changed since it was shown, and was not overwritten: run it again (%w)", o, err)
	}
	if err != nil || o.plan.Verb == "delete" {
		return err
	}
	managers := cells.MemberAt(cells.Decoded(o.then.Body), "metadata.managedFields")
	if managers == nil {
		return nil
	}
	if err := p.server.Manage(ctx, &o.Place, written, managers); err != nil {
		plain.Fprintf(p.c.ErrOrStderr(), "# %s: its field managers are not as they were: %v\n", o, err)
	}
	return nil
}
