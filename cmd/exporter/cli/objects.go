package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"kubecdc/ask"
	"kubecdc/change"
	"kubecdc/internal/fault"
	"kubecdc/internal/suggest"
	"kubecdc/sinks"
)

// In this file all commands parse objects, resources and streams, in kubectl's notation.

// ObjectsUse is the notation of objects in a command's usage line.
const ObjectsUse = "[TYPE[,TYPE...] [NAME...] | TYPE/NAME...]"

// TypesHelp explains how a command names resources.
const TypesHelp = `
TYPE is written as for kubectl: po, pod, pods, deploy, deployments.apps; several as
pods,deploy. The API server resolves the short names of custom resources. Without -n
every command selects all namespaces, as with -A. The namespace in your kubeconfig's
context is ignored, because a log can be read without one.
`

// ObjectsHelp explains how a command names objects.
const ObjectsHelp = TypesHelp + `One object is TYPE NAME or TYPE/NAME; several are TYPE NAME NAME or TYPE/NAME TYPE/NAME.
`

// Objects are the flags that select objects.
type Objects struct {
	Namespace, Selector string
	everywhere          bool
}

// Flags adds the flags. selects explains --selector. If it is empty, there is no --selector.
func (o *Objects) Flags(c *cobra.Command, selects string) {
	c.Flags().StringVarP(&o.Namespace, "namespace", "n", "", "only this namespace; without it all")
	c.Flags().BoolVarP(&o.everywhere, "all-namespaces", "A", false, "all namespaces, as without -n")
	if selects != "" {
		c.Flags().StringVarP(&o.Selector, "selector", "l", "", selects+", as kubectl takes them: app=web,tier!=test")
	}
}

// Check returns an error if flags contradict each other or can't be parsed.
func (o *Objects) Check() error {
	if o.everywhere && o.Namespace != "" {
		return fault.Usage("-A is all namespaces, and -n one of them: leave one of the two out")
	}
	if _, err := labels.Parse(o.Selector); err != nil {
		return fault.Usagef("--selector: %v: set it as for kubectl, such as app=web,tier!=test", err)
	}
	return nil
}

// parseObjects parses arguments like kubectl: types, each with a name, or with none for all objects. There may be no arguments.
func parseObjects(args []string) (types, names []string, err error) {
	for i, arg := range args {
		kind, name, paired := strings.Cut(arg, "/")
		switch {
		case paired != strings.Contains(args[0], "/"):
			return nil, nil, fault.Usagef("%q and %q: name objects as TYPE NAME NAME, or as TYPE/NAME TYPE/NAME", args[0], arg)
		case paired && (name == "" || strings.ContainsAny(kind, ",") || strings.Contains(name, "/")):
			return nil, nil, fault.Usagef("%q is no object: write TYPE/NAME, as deploy/web", arg)
		case paired:
			types, names = append(types, kind), append(names, name)
		case i > 0 || len(args) == 1:
			for kind := range strings.SplitSeq(args[0], ",") {
				types = append(types, kind)
				if i > 0 {
					names = append(names, arg)
				}
			}
		}
	}
	if slices.Contains(types, "") || slices.Contains(names, "") {
		err = fault.Usagef("%q names nothing: write TYPE, TYPE,TYPE, TYPE NAME or TYPE/NAME", args)
	}
	return types, names, err
}

// ParseTypes parses the arguments of a command that works on resources, not on single objects.
func ParseTypes(c *cobra.Command, args []string) ([]string, error) {
	types, names, err := parseObjects(args)
	if err == nil && len(names) > 0 {
		err = fault.Usagef("%s works on resources, but %q names an object", c.CommandPath(), args)
	}
	return types, err
}

// Select returns the objects of a log that the arguments and the flags select.
func (o *Objects) Select(ctx context.Context, c *cobra.Command, r sinks.Reader, args []string) (found sinks.Objects, err error) {
	found = sinks.Objects{Namespace: o.Namespace, Selector: o.Selector}
	types, names, err := parseObjects(args)
	if err != nil || len(types) == 0 {
		return found, err
	}
	known, err := r.Resources(ctx)
	if err != nil {
		return found, err
	}
	long, unasked := longNames(c, types, known)
	ids, err := suggest.Resources(long, known, "the log has no changes of")
	if err != nil && unasked != nil {
		err = fault.Usagef("%v\nthe API server, which knows the short names of custom resources, can't be asked: %v", err,
			unasked)
	}
	if err != nil {
		return found, err
	}
	for i, name := range names {
		if like := suggest.Like(name, known); len(args) > 1 && len(like) > 0 && strings.HasPrefix(like[0]+".", name+".") {
			return found, fault.Usagef("%q is a type, too: write %s,%s for both, or %s/%s for the object", name, types[i], name,
				types[i], name)
		}
		found.Names = append(found.Names, ids[i]+"/"+name)
	}
	found.Resources = slices.Compact(slices.Sorted(slices.Values(ids)))
	return found, nil
}

// askLimit is how long the API server may take to resolve short names.
const askLimit = 5 * time.Second

// longNames asks the API server to resolve short names that are not built in. If it can't be asked, the names remain unchanged,
// and unasked says why.
func longNames(c *cobra.Command, names, known []string) (long []string, unasked error) {
	if !slices.ContainsFunc(names, func(name string) bool { return len(suggest.Like(name, known)) == 0 }) {
		return names, nil
	}
	served, err := ServedNow(c, askLimit)
	if err != nil {
		return names, err
	}
	return served.Long(names), nil
}

// OnStreams calls do with the streams that the arguments select, by resource, or by stream (pods@shop). With -n it also selects
// streams of all namespaces, if the command can select objects in them.
func (o *Objects) OnStreams(c *cobra.Command, args []string, do func(*ask.Requester, []change.Position) error) error {
	if err := o.Check(); err != nil {
		return err
	}
	a, err := OpenRequester(c.Context(), c)
	if err != nil {
		return err
	}
	defer a.Close()
	found, err := named(c, a, args)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(p change.Position) bool {
		namespace := change.ParseStream(p.Stream).Namespace
		return o.Namespace != "" && namespace != o.Namespace && (namespace != "" || c.Flags().Lookup("selector") == nil)
	})
	if len(found) == 0 {
		return fault.Usagef("%s has no stream of namespace %s alone: exporter status lists the streams", strings.Join(args, ", "),
			o.Namespace)
	}
	return do(a, found)
}

// namedStreams returns the streams that the arguments name.
func named(c *cobra.Command, a *ask.Requester, args []string) ([]change.Position, error) {
	all, err := a.Streams(c.Context())
	if err != nil {
		return nil, err
	}
	var known, names []string
	for _, p := range all {
		known = append(known, change.ResourceOf(p.Stream).ID())
	}
	for _, arg := range args {
		resource, collection := arg, ""
		if i := strings.IndexAny(arg, "@?"); i >= 0 {
			resource, collection = arg[:i], arg[i:]
		}
		types, err := ParseTypes(c, []string{resource})
		if err != nil {
			return nil, err
		}
		long, _ := longNames(c, types, known)
		for _, name := range long {
			names = append(names, name+collection)
		}
	}
	return a.Named(c.Context(), names)
}
