package cli

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/config"
	"kubecdc/internal/suggest"
	"kubecdc/sinks"
)

// completeFor is how long completion may take after Tab.
const completeFor = 2 * time.Second

// completeSettings adds the completion of settings with few values, and of the kubeconfig's contexts.
func completeSettings(c *cobra.Command) {
	for _, setting := range config.Settings() {
		if len(setting.Values) > 0 && c.Flags().Lookup(setting.Flag) != nil {
			_ = c.RegisterFlagCompletionFunc(setting.Flag,
				cobra.FixedCompletions(setting.Values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	if c.Flags().Lookup("context") == nil {
		return
	}
	_ = c.RegisterFlagCompletionFunc("context", func(c *cobra.Command, _ []string, _ string) ([]string,
		cobra.ShellCompDirective) {
		settings, _, _ := config.Load(os.Environ(), c.Flags())
		if settings == nil {
			settings = &config.Config{}
		}
		return settings.Source.Contexts(), cobra.ShellCompDirectiveNoFileComp
	})
}

// CompleteFromLog adds completion from the log: types, names, namespaces and moments.
func CompleteFromLog(c *cobra.Command) {
	c.ValidArgsFunction = fromLog(objectsFor)
	_ = c.RegisterFlagCompletionFunc("namespace", fromLog(namespacesFor))
	for _, name := range []string{"since", "at", "from", "to"} {
		if c.Flags().Lookup(name) != nil {
			_ = c.RegisterFlagCompletionFunc(name,
				cobra.FixedCompletions([]string{"10m", "1h", "24h", "today", "yesterday", "now"},
					cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

// CompleteFlagFromLog adds completion of a flag's value.
func CompleteFlagFromLog(c *cobra.Command, flag string, find func(ctx context.Context, r sinks.Reader) []string) {
	_ = c.RegisterFlagCompletionFunc(flag, fromLog(func(ctx context.Context, _ *cobra.Command, r sinks.Reader, _ []string,
		_ string) []string {
		return find(ctx, r)
	}))
}

type completer func(ctx context.Context, c *cobra.Command, r sinks.Reader, args []string, begun string) []string

func fromLog(find completer) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), completeFor)
		defer cancel()
		r, _, err := OpenMirrored(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer r.Close()
		found := slices.DeleteFunc(find(ctx, c, r, args, begun),
			func(word string) bool { return !strings.HasPrefix(word, begun) })
		slices.Sort(found)
		return slices.Compact(found), cobra.ShellCompDirectiveNoFileComp
	}
}

// objectsFor completes types, then the names of the type before. After TYPE/ it completes names of that type.
func objectsFor(ctx context.Context, c *cobra.Command, r sinks.Reader, args []string, begun string) (found []string) {
	known, err := r.Resources(ctx)
	if err != nil {
		return nil
	}
	kind, _, paired := strings.Cut(begun, "/")
	prefix := kind + "/"
	if !paired && len(args) > 0 {
		kind, prefix = args[0], ""
	}
	if !paired && len(args) == 0 {
		for _, id := range known {
			found = append(found, id, suggest.Short(id))
		}
		return found
	}
	resources := suggest.Like(kind, known)
	if len(resources) == 0 {
		return nil
	}
	namespace, _ := c.Flags().GetString("namespace")
	collect(ctx, r, sinks.Query{Resources: resources, Namespace: namespace},
		func(l *sinks.Logged) { found = append(found, prefix+l.Name) })
	return found
}

func namespacesFor(ctx context.Context, _ *cobra.Command, r sinks.Reader, _ []string, _ string) (found []string) {
	q := sinks.Query{}
	if known, err := r.Resources(ctx); err == nil && slices.Contains(known, "namespaces") {
		q.Resources = []string{"namespaces"}
	}
	collect(ctx, r, q, func(l *sinks.Logged) {
		name := l.Namespace
		if change.ResourceOf(l.Stream.ID()).ID() == "namespaces" {
			name = l.Name
		}
		found = append(found, strings.Clone(name))
	})
	return found
}

// collect visits changes without bodies, until ctx ends.
func collect(ctx context.Context, r sinks.Reader, q sinks.Query, visit func(*sinks.Logged)) {
	q.NoBodies, q.Wanted = true, func(l *sinks.Logged) bool { visit(l); return false }
	_ = r.Changes(ctx, q, func(*sinks.Logged) error { return nil })
}
