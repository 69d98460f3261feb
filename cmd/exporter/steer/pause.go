package steer

import (
	"github.com/spf13/cobra"

	"kubecdc/ask"
	"kubecdc/change"
	"kubecdc/checkpoint"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/fault"
)

const pauseHelp = `Pause streams: stop reading them, and retain their positions.

A stream is one resource, or one resource in one namespace (pods, pods@shop). The
resource alone means its streams in all exported namespaces. A paused stream
remains paused over restarts, until "exporter resume". The control topic gets a
stream-paused record, and /readyz lists the stream.

Resume soon: the exporter then reads back what happened meanwhile, but the API
server retains its history for only five minutes by default. After a longer pause
only the difference is known.

  exporter pause pods
  exporter pause po,deploy -n shop --no-wait
  exporter resume pods@shop
` + cli.TypesHelp

const resumeHelp = `Resume streams that were paused.

They go on from their positions, with what happened meanwhile. The control topic
gets a stream-resumed record.

  exporter signals list      # shows which streams are paused
  exporter resume pods
` + cli.TypesHelp

// NewPause returns the command exporter pause.
func NewPause() *cobra.Command {
	return newStreamSignal("pause", "Pause streams, over restarts too", pauseHelp, change.SignalPause)
}

// NewResume returns the command exporter resume.
func NewResume() *cobra.Command {
	return newStreamSignal("resume", "Resume streams that were paused", resumeHelp, change.SignalResume)
}

// newStreamSignal returns a command that sends a signal to each selected stream.
func newStreamSignal(name, short, help string, kind change.SignalKind) *cobra.Command {
	c := cli.WithSettings(&cobra.Command{Use: name + " STREAM... [flags]", Short: short, Long: help, Args: needsStreams},
		cli.OfRequests)
	var o cli.Objects
	o.Flags(c, "")
	noWait := addNoWait(c)
	c.RunE = func(c *cobra.Command, streams []string) error {
		return o.OnStreams(c, streams, func(a *ask.Requester, found []change.Position) error {
			var requests []checkpoint.Signal
			for _, p := range found {
				if p.Ended == "" {
					requests = append(requests, checkpoint.Signal{Kind: kind, Stream: p.Stream})
				}
			}
			if len(requests) == 0 {
				return fault.Usagef("stream %q has ended, since it is not selected any more: select it again first",
					found[0].Stream)
			}
			return a.Ask(c.Context(), requests, !*noWait)
		})
	}
	return c
}

func needsStreams(c *cobra.Command, streams []string) error {
	if len(streams) == 0 {
		return fault.Usage("no stream is named\nexporter " + c.Name() + " --help explains all")
	}
	return nil
}

func addNoWait(c *cobra.Command) *bool {
	return c.Flags().Bool("no-wait", false, "return at once; exporter signals list shows the answer")
}
