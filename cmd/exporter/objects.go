package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"kubecdc/ask"
	"kubecdc/change"
	"kubecdc/internal/suggest"
	"kubecdc/internal/usage"
	"kubecdc/sinks"
)

// This file is how all commands name objects, resources and streams: in kubectl's words.

// objectsUse is what the use of a command has in the place of objects.
const objectsUse = "[TYPE[,TYPE...] [NAME...] | TYPE/NAME...]"

const typesHelp = `
TYPE is written as for kubectl: po, pod, pods, deploy, deployments.apps; several as
pods,deploy. Custom resources' own short names are asked of the API server. Without -n
all namespaces count, as with -A: what the context of a kubeconfig says does not, since
a log may be read without one. That is so in every command.
`

const objectsHelp = typesHelp + `One object is TYPE NAME or TYPE/NAME; several are TYPE NAME NAME or TYPE/NAME TYPE/NAME.
`

// objects are the flags that select objects.
type objects struct {
	namespace, selector string
	everywhere          bool
}

func (o *objects) flags(c *cobra.Command, labels string) {
	c.Flags().StringVarP(&o.namespace, "namespace", "n", "", "only of this namespace; without it of all")
	c.Flags().BoolVarP(&o.everywhere, "all-namespaces", "A", false, "of all namespaces, as without -n")
	if labels != "" {
		c.Flags().StringVarP(&o.selector, "selector", "l", "", labels+", as kubectl takes them: app=web,tier!=test")
	}
}

func (o *objects) check() error {
	if o.everywhere && o.namespace != "" {
		return usage.Error("-A is all namespaces, and -n one of them: leave one of the two out")
	}
	if _, err := labels.Parse(o.selector); err != nil {
		return usage.Errorf("--selector: %v: set it as for kubectl, such as app=web,tier!=test", err)
	}
	return nil
}

// named is what arguments name: types, and of each the names, if there are any.
type named struct {
	types []string
	names [][]string // of each type; empty: all its objects
}

// parseObjects reads arguments as kubectl does. There may be none.
func parseObjects(args []string) (n named, err error) {
	paired := len(args) > 0 && strings.Contains(args[0], "/")
	if len(args) > 0 && !paired {
		n.types = strings.Split(args[0], ",")
		for range n.types {
			n.names = append(n.names, args[1:])
		}
	}
	for i, arg := range args {
		kind, name, slash := strings.Cut(arg, "/")
		switch {
		case slash != paired:
			return n, usage.Errorf("%q and %q: name objects as TYPE NAME NAME, or as TYPE/NAME TYPE/NAME", args[0], arg)
		case slash && (kind == "" || name == "" || strings.ContainsAny(kind, ",") || strings.Contains(name, "/")):
			return n, usage.Errorf("%q is no object: write TYPE/NAME, as deploy/web", arg)
		case slash:
			n.types, n.names = append(n.types, kind), append(n.names, []string{name})
		case arg == "" || i == 0 && slices.Contains(n.types, ""):
			return n, usage.Errorf("%q names nothing: write TYPE, TYPE,TYPE, TYPE NAME or TYPE/NAME", arg)
		}
	}
	return n, nil
}

// of finds the objects of a log that the arguments and the flags select.
func (o *objects) of(ctx context.Context, c *cobra.Command, r sinks.Reader, args []string) (found sinks.Objects, err error) {
	found = sinks.Objects{Namespace: o.namespace, Selector: o.selector}
	n, err := parseObjects(args)
	if err != nil || len(n.types) == 0 {
		return found, err
	}
	known, err := r.Resources(ctx)
	if err != nil {
		return found, err
	}
	ids, err := suggest.Resources(long(c, n.types, known), known, "the log has no changes of")
	if err != nil {
		return found, err
	}
	for i, id := range ids {
		if !slices.Contains(found.Resources, id) {
			found.Resources = append(found.Resources, id)
		}
		for _, name := range n.names[i] {
			if like := suggest.Like(name, known); len(args) > 1 && len(like) > 0 && strings.HasPrefix(like[0]+".", name+".") {
				return found, usage.Errorf("%q is a type, too: write %s,%s for both, or %s/%s for the object", name, args[0], name, args[0], name)
			}
			found.Names = append(found.Names, id+"/"+name)
		}
	}
	return found, nil
}

// askLimit is how long the API server may take to tell short names.
const askLimit = 5 * time.Second

// long replaces short names that are not built in by what the API server says they stand for, if it can be reached.
func long(c *cobra.Command, names, known []string) []string {
	if !slices.ContainsFunc(names, func(name string) bool { return len(suggest.Like(name, known)) == 0 }) {
		return names
	}
	served, err := servedNow(c, askLimit)
	if err != nil {
		return names
	}
	return served.Long(names)
}

// resources finds the resources that an argument names, of which a checkpoint has streams.
func (o *objects) resources(c *cobra.Command, a *ask.Requester, args []string) ([]string, error) {
	n, err := parseObjects(args)
	if err == nil && strings.Contains(args[0], "/") {
		err = usage.Errorf("%s is about whole resources, and %q is an object: select it by -n and -l", c.CommandPath(), args[0])
	}
	if err != nil {
		return nil, err
	}
	known, err := knownTo(c.Context(), a)
	return long(c, n.types, known), err
}

func knownTo(ctx context.Context, a *ask.Requester) (known []string, err error) {
	all, err := a.Streams(ctx)
	for _, p := range all {
		known = append(known, change.ResourceOf(p.Stream).ID())
	}
	return known, err
}

// streams finds the streams that arguments name: by resource, or by stream (pods@shop).
func (o *objects) streams(c *cobra.Command, a *ask.Requester, args []string) ([]change.Position, error) {
	if len(args) == 0 {
		return nil, usage.Errorf("no stream is named\n%s --help explains all", c.CommandPath())
	}
	known, err := knownTo(c.Context(), a)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, arg := range args {
		resource, collection := arg, ""
		if i := strings.IndexAny(arg, "@?"); i >= 0 {
			resource, collection = arg[:i], arg[i:]
		}
		if strings.Contains(resource, "/") {
			return nil, usage.Errorf("%s is about whole streams, and %q is an object", c.CommandPath(), arg)
		}
		for _, name := range long(c, strings.Split(resource, ","), known) {
			names = append(names, name+collection)
		}
	}
	found, err := a.Named(c.Context(), names)
	if err != nil || o.namespace == "" {
		return found, err
	}
	within := func(p change.Position) bool { return change.ParseStream(p.Stream).Namespace == o.namespace }
	if !slices.ContainsFunc(found, within) {
		return nil, usage.Errorf("no stream of %s is of namespace %s alone: %s has it with all others", strings.Join(args, ", "), o.namespace,
			found[0].Stream)
	}
	return slices.DeleteFunc(found, func(p change.Position) bool { return !within(p) }), nil
}
