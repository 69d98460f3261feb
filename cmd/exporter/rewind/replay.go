package rewind

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/change"
	"kubecdc/change/moment"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/config"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
	"kubecdc/observe"
	"kubecdc/query/timeline"
	"kubecdc/replay"
	"kubecdc/setup"
	"kubecdc/sinks"
)

var replayHelp = `Write a part of the log again, to another place: the topics of another prefix,
another Kafka, a Postgres database, or standard output. The live topics are never
written to.

--from and --to are one of
` + startForms.Help() + `

A time means when the log got a change. Without --to the replay ends at the
present end of the log.

The command prints a plan first: how many records of which topics. With --execute
it writes each record once, with the original key, value, headers and time, and
the header replay. A replay that was interrupted, even by kill -9, goes on with
--resume: no record is lost or written twice. A replay to standard output can't be
resumed.

At the end it prints the offsets of the live topics at which a consumer of the
replay goes on without a gap. kafka-consumer-groups.sh --reset-offsets --from-file
reads them.

  exporter replay --from 2h --to-prefix kubecdc-again
  exporter replay po,deploy --from 0/1234 -n shop --to-stdout --execute > changes.jsonl
  exporter replay --from start --to-postgres postgres://kubecdc@db/again
  exporter replay --resume 20261122-105356-k3x9ab --to-prefix kubecdc-again
` + cli.ObjectsHelp

// startForms are the moments at which a replay can begin. It can end at the moments of cli.SinceForms.
const startForms = cli.SinceForms | moment.Start

type replayFlags struct {
	from, to   string
	begin, end replay.Asked // their parsed values
	cli.Objects
	args, ops           []string
	place               setup.ReplayPlace
	execute, incomplete bool
	resume              string
	rate                int
	format              cli.Output
}

// NewReplay returns the command exporter replay.
func NewReplay() *cobra.Command {
	f := &replayFlags{}
	c := cli.WithOutput(&cobra.Command{
		Use:   "replay " + cli.ObjectsUse + " --from BOUND --to-PLACE [flags]",
		Short: "Write a part of the log again, to another place",
		Long:  replayHelp,
		RunE: func(c *cobra.Command, args []string) error {
			f.args = args
			return f.run(c.Context(), c)
		},
	}, &f.format)
	s := c.Flags()
	s.StringVar(&f.from, "from", "", "where to begin: a checkpoint, time, or start")
	s.StringVar(&f.to, "to", "now", "where to end: a checkpoint, time, or now")
	f.Objects.Flags(c, "only objects that have these labels before or after the change")
	s.StringSliceVar(&f.ops, "op", nil, "only these operations: c, u, d, r")
	s.StringVar(&f.place.Prefix, "to-prefix", "", "write to topics with this prefix")
	s.StringSliceVar(&f.place.Brokers, "to-brokers", nil,
		"write to this Kafka instead of the live one, with the same TLS and SASL settings")
	s.StringVar(&f.place.Postgres, "to-postgres", "", "write to tables of this database, like the postgres sink")
	s.StringVar(&f.place.SQLite, "to-sqlite", "", "write to this file, like the sqlite sink: a part of the log, to read offline")
	s.BoolVar(&f.place.Stdout, "to-stdout", false, "write to standard output, as lines of JSON")
	s.BoolVar(&f.execute, "execute", false, "write without asking")
	s.StringVar(&f.resume, "resume", "", "go on with the replay of this id, to the same target")
	s.IntVar(&f.rate, "rate", 0, "at most this many records per second; 0: no limit")
	s.BoolVar(&f.incomplete, "incomplete", false, "replay what the log has, even if it lacks something")
	return cli.WithSettings(c, cli.OfReplay)
}

func (f *replayFlags) run(ctx context.Context, c *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	settings, cluster, err := cli.ReaderSettings(ctx, c)
	if err != nil {
		return err
	}
	log, err := setup.OpenLog(ctx, c.Name(), settings, cluster)
	if err != nil {
		return err
	}
	defer log.Close()
	r := &replaying{replayFlags: f, command: c, settings: settings, cluster: cluster, log: log, out: c.OutOrStdout(),
		errs: c.ErrOrStderr()}
	if f.place.Stdout {
		r.out = r.errs
	}
	return r.do(ctx)
}

func (f *replayFlags) check() error {
	switch {
	case f.resume == "" && f.from == "":
		return fault.Usage("--from: say where the replay begins: a checkpoint, a time, or start")
	case f.resume != "" && (f.from != "" || f.to != "now" || len(f.args)+len(f.ops) > 0 || f.Objects != (cli.Objects{})):
		return fault.Usage("--resume: the replay has its bounds and its selection already; leave them out")
	case f.resume != "" && f.place.Stdout:
		return fault.Usage("--resume: what was written to standard output can't be read back, so that replay can't go on")
	case f.rate < 0:
		return fault.Usage("--rate: a number of records a second, or 0 for no limit")
	}
	for _, op := range f.ops {
		if len(op) != 1 || !strings.Contains("cudr", op) {
			return fault.Usagef("--op %s: the operations are c (created), u (updated), d (deleted) and r (read by a snapshot)",
				op)
		}
	}
	if err := f.Objects.Check(); err != nil {
		return err
	}
	if f.resume == "" {
		var err error
		if f.begin, err = asked("--from", f.from, startForms); err != nil {
			return err
		}
		if f.end, err = asked("--to", f.to, cli.SinceForms); err != nil {
			return err
		}
	}
	return f.place.Check()
}

func asked(flag, text string, forms moment.Form) (replay.Asked, error) {
	m, err := cli.ParseMoment(flag, text, forms)
	return replay.Asked{Flag: flag, Text: text, Moment: m}, err
}

// replaying is one run of the command.
type replaying struct {
	*replayFlags
	command  *cobra.Command
	settings *config.Config
	cluster  string
	log      sinks.Reader
	out      io.Writer
	errs     io.Writer
}

func (r *replaying) do(ctx context.Context) error {
	live, err := setup.LogIdentity(ctx, r.settings, r.cluster)
	if err != nil {
		return err
	}
	target, err := r.place.Open(ctx, r.settings, r.cluster, live, cli.Version, jsonOut())
	if err != nil {
		return err
	}
	defer target.Close()
	run := &replay.Run{Log: r.log, Target: target, Rate: r.rate, Covered: timeline.Copied,
		Envelope: change.Envelope{Cluster: r.cluster, Prefix: r.settings.Kafka.TopicPrefix, Version: cli.Version}}
	if r.resume != "" {
		return r.goOn(ctx, run, live)
	}
	if run.Plan, err = r.plan(ctx, live); err != nil {
		return err
	}
	if r.format.Format == "table" || !r.execute {
		if err := r.printPlan(run.Plan); err != nil {
			return err
		}
	}
	if !r.execute {
		plain.Fprintf(r.errs, "nothing was written; --execute writes it\n")
		return nil
	}
	if err := run.Begin(ctx); err != nil {
		return err
	}
	return r.execution(ctx, run)
}

func (r *replaying) goOn(ctx context.Context, run *replay.Run, live string) error {
	if err := run.Resume(ctx, r.resume); err != nil {
		return err
	}
	if run.Plan.Log != live || run.Plan.Cluster != r.cluster {
		return fault.Usagef("replay %s reads %s of cluster %s, and the settings name %s of cluster %s", r.resume,
			run.Plan.Log, run.Plan.Cluster, live, r.cluster)
	}
	if run.Ended() {
		plain.Fprintf(r.errs, "replay %s had ended already: %d records\n", r.resume, run.Written())
		return r.printEnd(run, 0, 0)
	}
	plain.Fprintf(r.errs, "replay %s goes on: %d of %d records are written\n", r.resume, run.Written(), run.Plan.Records())
	return r.execution(ctx, run)
}

func (r *replaying) execution(ctx context.Context, run *replay.Run) error {
	began, before := time.Now(), run.Written()
	show := cli.NewProgress(r.errs, "replay", run.Plan.Records(), r.logger())
	run.Progress = func(written int64) { show.Report(written, 0) }
	show.Report(before, 0)
	err := run.Do(ctx)
	show.End()
	if err != nil {
		goOn := plain.Sprintf("%d of %d records are written; to go on: %s", run.Written(), run.Plan.Records(),
			r.place.Resume(run.Plan.ID))
		if ctx.Err() != nil {
			plain.Fprintf(r.errs, "replay %s: stopped; %s\n", run.Plan.ID, goOn)
			return ctx.Err()
		}
		return fmt.Errorf("replay %s: %w\n%s", run.Plan.ID, err, goOn)
	}
	return r.printEnd(run, run.Written()-before, time.Since(began))
}

// logger returns the log for progress without a terminal.
func (r *replaying) logger() *slog.Logger {
	return observe.NewLogger(r.errs, r.settings.Process.LogLevel, r.settings.Process.LogFormat, false)
}

// jsonOut returns standard output for lines of JSON.
func jsonOut() io.Writer {
	if screen.IsTerminal(os.Stdout) {
		return plain.JSONWriter(os.Stdout)
	}
	return os.Stdout
}
