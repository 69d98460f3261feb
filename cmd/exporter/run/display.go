package run

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"kubecdc/change"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/config"
	"kubecdc/export/live"
	"kubecdc/internal/kubeapi"
	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
	"kubecdc/internal/suggest"
	"kubecdc/internal/wait"
	"kubecdc/query/difference"
	"kubecdc/setup"
	"kubecdc/sinks/stdout"
)

// display shows on a terminal where the log is, how far the first lists are, and what can't be exported. The sink shows the
// changes. A nil display shows nothing.
type display struct {
	*screen.Screen
	settings  *config.Config
	titled    bool
	forbidden int  // number of resources in the last line about rights
	unknown   bool // the last line about credentials said that they are refused
}

// newDisplay returns the display of a terminal. It returns nil if people or a program read the log instead.
func newDisplay(settings *config.Config) *display {
	s := screen.New(os.Stdout)
	if s == nil || !screen.IsTerminal(os.Stderr) || settings.Process.LogFormat != "auto" || settings.Process.LogLevel == "debug" {
		return nil
	}
	return &display{Screen: s, settings: settings}
}

// show returns which changes the sink shows.
func (d *display) show(all bool) stdout.Show {
	if d == nil {
		return stdout.Show{Screen: screen.New(os.Stdout), All: all}
	}
	return stdout.Show{Screen: d.Screen, All: all, What: whatDiffers, Named: func(resource string) bool {
		return slices.ContainsFunc(d.settings.Source.Resources,
			func(name string) bool { return len(suggest.Like(name, []string{resource})) > 0 })
	}}
}

// whatDiffers describes an update as exporter tail does.
func whatDiffers(before, after []byte) string {
	lines, _ := difference.Lines(before, after, false) // what can't be read is described by its fields
	return difference.InWords(lines)
}

const commands = `
  In another terminal:
    exporter history --since 1h    what has changed, and who did it
    exporter state po -A --at 1m   what there was a minute ago
    exporter tail -n 20            the last changes, and the next ones

`

// title prints once what is exported, and how to ask about it.
func (d *display) title(cluster, checkpoint, url string) {
	if d == nil || d.titled {
		return
	}
	d.titled = true
	d.Print(screen.Part{Text: "kubecdc " + cli.Version, Paint: d.Colours.Title}, screen.Part{Text: " exports cluster " + cluster})
	if home, err := os.UserHomeDir(); err == nil {
		checkpoint = strings.Replace(checkpoint, home+"/", "~/", 1)
	}
	inFile := setup.SinkOf(d.settings).InCheckpoint
	places := plain.Sprintf("  log:    %s\n", checkpoint) // not cut off, since users copy it
	if !inFile {
		places = plain.Sprintf("  log:    %s\n  checkpoint: %s\n", setup.DescribeSink(d.settings), checkpoint)
	}
	_, _ = d.Write([]byte(places))
	if url != "" {
		d.Print(screen.Part{Text: "  status: " + url})
	}
	if inFile {
		_, _ = d.Write([]byte(commands))
	}
}

// listOtherLogs says that the log has another name than the context, and that there are logs of other clusters with the same
// name.
func (d *display) listOtherLogs(named string, logs []setup.EmbeddedLog, log *slog.Logger) {
	if named != "" && d == nil {
		log.Info(named)
	} else if named != "" {
		_, _ = d.Write([]byte(plain.Sprintf("%s\n", named)))
	}
	for _, l := range logs {
		if d == nil {
			log.Info("another cluster of this name has a log of its own: --cluster asks it", "cluster", l.Cluster, "file", l.Path)
			continue
		}
		_, _ = d.Write([]byte(plain.Sprintf("another cluster of this name has a log of its own, last written at %s: exporter "+
			"history --cluster %s\n",
			screen.Clock(l.Changed, time.Now()), l.Cluster)))
	}
}

// begin follows the exporter until end is called, which clears the status line.
func (d *display) begin(ctx context.Context, state *live.Exporter) (end func()) {
	if d == nil {
		return func() {}
	}
	following, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		d.follow(following, state)
		close(ended)
	}()
	return func() { stop(); <-ended }
}

// follow shows how the streams start, until ctx ends.
func (d *display) follow(ctx context.Context, state *live.Exporter) {
	defer d.Live()
	began := time.Now()
	var gaps gapReport
	for listed := false; wait.For(ctx, time.Second/10) == nil; {
		s := state.Snapshot()
		if settled := isSettled(s); !settled {
			d.Live(screen.Part{Text: progressOf(s)})
			continue
		}
		recovering := recoveryOf(s)
		d.Live(screen.Part{Text: recovering})
		if !listed {
			listed = true
			d.say(true, summaryOf(s, time.Since(began)))
		}
		d.rights(s)
		d.credentials(s)
		if text, complete := gaps.next(s); recovering == "" && !d.unknown && text != "" {
			d.say(complete, text)
		}
	}
}

// say prints a line that is good news, or a warning.
func (d *display) say(isGood bool, text string) {
	sign, paint := "⚠ ", d.Colours.Alert
	if isGood {
		sign, paint = "✓ ", d.Colours.Added
	}
	d.Print(screen.Part{Text: sign, Paint: paint}, screen.Part{Text: text})
}

// gapReport reports the gaps of all streams as one, since one cause usually ends all watches.
type gapReport struct{ reported int64 } // time of the last reported gap, in ms

// next returns the text for gaps that were not yet reported, once no other gap has followed for a second.
func (g *gapReport) next(s *live.Snapshot) (text string, complete bool) {
	resources, changes, complete, newest := 0, 0, true, g.reported
	for _, v := range s.Streams {
		c, known := v.Controls[change.ControlGap]
		if !known || c.Gap == nil || c.TimeMs <= g.reported {
			continue
		}
		resources++
		changes += c.Gap.Recovered + c.Gap.Inferred
		complete = complete && c.Gap.Complete
		newest = max(newest, c.TimeMs)
	}
	if resources == 0 || s.Time.Sub(time.UnixMilli(newest)) < time.Second {
		return "", complete
	}
	g.reported = newest
	text = "410: " + count(resources, "watch") + " could not resume; recovered " + count(changes, "change")
	if !complete {
		return text + ", others may be missing", false
	}
	return text + ", none is missing", true
}

// isSettled reports whether each stream follows its watch, or can't be watched.
func isSettled(s *live.Snapshot) bool {
	settled := len(s.Streams) > 0
	for _, v := range s.Streams {
		settled = settled && v.Added && v.Settled
	}
	return settled
}

// progressOf returns how far the first lists are.
func progressOf(s *live.Snapshot) string {
	settled, objects := 0, int64(0)
	for _, v := range s.Streams {
		if v.Settled {
			settled++
		}
		objects += max(v.Objects, 0)
	}
	if len(s.Streams) == 0 {
		return "reading what the cluster serves …"
	}
	return fmt.Sprintf("reading %d of %s: %s%s", settled, count(len(s.Streams), "resource"), count(int(objects), "object"),
		largest(s))
}

func count(n int, what string) string {
	return humanize.Comma(int64(n)) + " " + english.PluralWord(n, what, "")
}

func summaryOf(s *live.Snapshot, took time.Duration) string {
	followed, objects := 0, int64(0)
	for _, v := range s.Streams {
		if v.Problem == nil {
			followed++
		}
		objects += max(v.Objects, 0)
	}
	return fmt.Sprintf("following %s, %s (read in %s)%s", count(followed, "resource"), count(int(objects), "object"),
		took.Round(time.Second/10), largest(s))
}

// largest returns the resources with the most objects.
func largest(s *live.Snapshot) (text string) {
	counts := map[string]int64{}
	for id, v := range s.Streams {
		counts[change.ResourceOf(id).ID()] += max(v.Objects, 0)
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a,
		b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for i, name := range names[:min(6, len(names))] {
		if counts[name] > 0 {
			plural, _, _ := strings.Cut(name, ".")
			text += []string{": ", ", "}[min(i, 1)] + plural + " " + humanize.Comma(counts[name])
		}
	}
	return text
}

// recoveryOf returns how far the recovery of missed changes is, or "" if there is no recovery.
func recoveryOf(s *live.Snapshot) string {
	recovering, n := live.Recovers, 0
	for _, v := range s.Streams {
		if v.State == change.StateBackfilling {
			if n++; v.Recovering != nil {
				recovering = v.Recovering.Text
			}
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return "one resource " + recovering
	}
	return fmt.Sprintf("recovering what the watches of %d resources missed", n)
}

// rights prints one line about resources that can't be read, and how to export the others.
func (d *display) rights(s *live.Snapshot) {
	var may []string
	forbidden, user := 0, ""
	for id, v := range s.Streams {
		switch {
		case v.Problem != nil && v.Problem.Status == http.StatusForbidden:
			forbidden, user = forbidden+1, kubeapi.RefusedUser(v.Problem.Text)
		case v.Problem == nil:
			may = append(may, change.ResourceOf(id).ID())
		}
	}
	if forbidden == d.forbidden {
		return
	}
	if d.forbidden = forbidden; forbidden == 0 {
		d.say(true, "all resources can be read now")
		return
	}
	slices.Sort(may)
	d.say(false, fmt.Sprintf("%d of %d resources can't be read with these rights; the others are exported", forbidden,
		len(s.Streams)))
	if may = slices.Compact(may); len(may) > 0 && len(may) <= 12 {
		_, _ = d.Write([]byte("  only what can be read:  exporter run --resources " + strings.Join(may, ",") + "\n"))
	}
	_, _ = d.Write([]byte("  rights for all:         " + kubeapi.RBACCommand(user) + " | kubectl apply -f -\n"))
}

// credentials prints one line if the API server refuses the credentials, or accepts them again.
func (d *display) credentials(s *live.Snapshot) {
	unknown := false
	for _, v := range s.Streams {
		unknown = unknown || v.Problem != nil && v.Problem.Status == http.StatusUnauthorized
	}
	if unknown == d.unknown {
		return
	}
	if d.unknown = unknown; !unknown {
		d.say(true, "the API server accepts the credentials again")
		return
	}
	d.say(false, "the API server refuses the credentials (401): they expired, or were revoked")
	_, _ = d.Write([]byte("  what is missed meanwhile is recovered: renew the token, certificate or login of the " +
		"kubeconfig's user\n"))
}

// terminalLog is the log on a terminal with a display: warnings, and messages about the end. It leaves out what the display shows
// for all streams: retries, and watches that could not resume.
type terminalLog struct{ slog.Handler }

func (h terminalLog) Enabled(ctx context.Context, level slog.Level) bool {
	return h.Handler.Enabled(ctx, level)
}

func (h terminalLog) Handle(ctx context.Context, r slog.Record) error {
	said := r.Level >= slog.LevelWarn && !slices.Contains([]string{"will try again", "relist", "gap",
		"discovery failed; the selection is unchanged"}, r.Message)
	for _, phrase := range []string{"stopping", "stopped", "no longer waiting"} {
		said = said || strings.HasPrefix(r.Message, phrase)
	}
	if !said {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h terminalLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return terminalLog{h.Handler.WithAttrs(attrs)}
}
func (h terminalLog) WithGroup(name string) slog.Handler {
	return terminalLog{h.Handler.WithGroup(name)}
}
