package cli

import (
	"context"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kubecdc/config"
	"kubecdc/internal/fault"
	"kubecdc/internal/suggest"
	"kubecdc/setup"
)

// ClusterLog is the log of one of several clusters.
type ClusterLog struct {
	Name     string
	settings *config.Config
}

type oneOfSeveral struct{}

// In returns a context in which a command reads this log, whatever --cluster says.
func (l *ClusterLog) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, oneOfSeveral{}, l)
}

// Clusters returns the logs that --cluster selects if it has several names, or patterns: prod-*,staging. It returns nil for one
// name, or none.
func Clusters(ctx context.Context, c *cobra.Command) (selected []*ClusterLog, err error) {
	asked := c.Flags().Lookup("cluster").Value.String()
	if !strings.ContainsAny(asked, "*?[,") {
		return nil, nil
	}
	if c.Flags().Changed(noMirror) {
		return nil, fault.Usage("--no-mirror reads topics, and several clusters are asked through the mirror: name one of them")
	}
	environment := os.Environ()
	if file := c.Flags().Lookup("log").Value.String(); file != "" {
		environment = inFile(file)
	}
	settings, _, err := config.Load(environment, c.Flags())
	if err != nil {
		return nil, err
	}
	names, settings, err := setup.Clusters(ctx, c.Name(), *settings)
	if err != nil {
		return nil, err
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	for _, pattern := range strings.Split(asked, ",") {
		found := len(selected)
		for _, name := range names {
			if fits, err := match(pattern, name); err != nil {
				return nil, fault.Usagef("--cluster %s: %v: write it as for a shell, such as prod-*", pattern, err)
			} else if fits {
				selected = append(selected, &ClusterLog{name, settings})
			}
		}
		if len(selected) == found {
			return nil, fault.Usagef("--cluster: no log is of %q: %sthere are logs of %s", pattern,
				suggest.DidYouMean(pattern, names), strings.Join(names, ", "))
		}
	}
	slices.SortFunc(selected, func(a, b *ClusterLog) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(selected, func(a, b *ClusterLog) bool { return a.Name == b.Name }), nil
}

// match reports whether a pattern fits a name, in which a slash is a character like others.
func match(pattern, name string) (bool, error) {
	const slash = "\x00"
	fits, err := path.Match(strings.ReplaceAll(pattern, "/", slash), strings.ReplaceAll(name, "/", slash))
	return fits || pattern == name, err
}
