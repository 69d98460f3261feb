// Package inspect has the commands that show whether an export is healthy, allowed and correct, and how to read it: status,
// check, rbac, verify, schema. Only verify --repair changes anything.
package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kubecdc/cmd/exporter/cli"
	"kubecdc/config"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/internal/screen"
	"kubecdc/internal/wait"
	"kubecdc/setup"
	"kubecdc/status"
)

const statusHelp = `Show whether the export is healthy and complete.

The report has problems and the owner of each slot. For each stream it says how far
the log is complete, and has its last gap and its last proof. If an exporter with the
same checkpoint runs on this machine, the command asks it; --url asks another one. An
exporter knows the state, rate and error of its streams, and whether the sink and the
checkpoint answer. SSL_CERT_FILE names a PEM file of trusted authorities.

The report has the size of the log, with all clusters in it, the pace of the last day,
and the resources that take most. The latter two are estimated. With SQLite the report
also has the limit, and when the log is full at that pace. With Kafka it counts one
copy, has no pace, and needs Describe on the cluster.

If no exporter answers, the report comes from the checkpoint alone. So the command
works on any machine that reaches the checkpoint; an SQLite file must be on the same
machine. The command writes nothing.

The exit code is 1 if something is wrong. That is so if a slot has no owner, or if a
stream
  - was not confirmed for KUBECDC_WATERMARK_INTERVAL and 4 more minutes,
  - is paused, lacks its first list, or differs in its last proof, or
  - had a gap in the last 24 hours that was not recovered completely.

On a terminal each part without problems is one line; -o wide shows every stream.

--watch goes on until Ctrl-C, and then ends with exit code 0. It reports failures, and
tries again.

  exporter status
  exporter status --watch
  exporter status --url http://kubecdc:8080 --token-file token -o json`

const watchInterval = 2 * time.Second

type statusFlags struct {
	cli.Output
	watch          bool
	url, tokenFile string
}

// NewStatus returns the command exporter status.
func NewStatus() *cobra.Command {
	var f statusFlags
	c := cli.WithOutput(&cobra.Command{Use: "status [flags]", Short: "Show whether the export is healthy and complete",
		Long: statusHelp,
		Args: cli.Args(0, 0)}, &f.Output, "wide")
	c.Flags().BoolVarP(&f.watch, "watch", "w", false, "show it again every 2 s, until Ctrl-C")
	c.Flags().StringVar(&f.url, "url", "", "address of a running exporter to ask (KUBECDC_LISTEN), such as http://localhost:8080")
	c.Flags().StringVar(&f.tokenFile, "token-file", "",
		"with --url: file with the bearer token that the exporter demands (KUBECDC_HTTP_ACCESS)")
	c.RunE = func(c *cobra.Command, _ []string) error { return showStatus(c, &f) }
	return cli.WithSettings(c, cli.OfStatus)
}

func showStatus(c *cobra.Command, f *statusFlags) error {
	read, err := f.source(c)
	if err != nil {
		return err
	}
	if f.watch {
		return f.follow(c, read)
	}
	s, err := read(c.Context())
	if err == nil {
		err = f.show(c, s)
	}
	if err == nil && !s.Healthy {
		err = fmt.Errorf("%d wrong: %s: %s", len(s.Problems), s.Problems[0].Component, s.Problems[0].Text)
	}
	return err
}

// follow shows the status until the command is stopped. Only a wrong setting ends it. Other failures are reported, and it tries
// again.
func (f *statusFlags) follow(c *cobra.Command, read func(context.Context) (*status.Status, error)) error {
	for reported := ""; ; {
		s, err := read(c.Context())
		if err == nil {
			reported, err = "", f.show(c, s)
			if err != nil {
				return err
			}
		} else if c.Context().Err() == nil {
			text := plain.Redact(err.Error())
			if cli.ExitCode(err) == cli.ExitSettings {
				return err
			}
			if text != reported {
				plain.Fprintf(c.ErrOrStderr(), "# %s: %s; trying again every %s\n", time.Now().Format(time.TimeOnly), text,
					watchInterval)
			}
			reported = text
		}
		if wait.For(c.Context(), watchInterval) != nil {
			return nil
		}
	}
}

func (f *statusFlags) show(c *cobra.Command, s *status.Status) error {
	terminal := screen.New(c.OutOrStdout())
	if f.watch && terminal != nil && (f.Format == "table" || f.Format == "wide") {
		plain.Fprintf(c.OutOrStdout(), "\x1b[H\x1b[2J") // clear the screen
	}
	if terminal != nil && f.Format == "table" {
		if err := cli.Write(terminal, s.Short(terminal.Columns(), terminal.Colours)); err != nil {
			return err
		}
	} else if err := f.Print(c.OutOrStdout(), s, s.WriteTable); err != nil {
		return err
	}
	for _, remark := range s.Notes {
		plain.Fprintln(c.ErrOrStderr(), "# "+remark)
	}
	return nil
}

// source returns the function that gets a status, from an exporter or from the checkpoint.
func (f *statusFlags) source(c *cobra.Command) (read func(context.Context) (*status.Status, error), err error) {
	if f.url != "" {
		u, err := url.Parse(f.url)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fault.Usagef("--url %s: write it as http://HOST:PORT or https://HOST:PORT", plain.Redact(f.url))
		}
		return f.fetch, nil
	}
	if f.tokenFile != "" {
		return nil, fault.Usage("--token-file is for --url")
	}
	return f.findSource(c), nil
}

// findSource returns a function that gets the status of the exporter on this machine. If there is none, the function makes a
// status from the checkpoint, which it opens each time.
func (f *statusFlags) findSource(c *cobra.Command) func(context.Context) (*status.Status, error) {
	var settings *config.Config // nil: not read yet, which may need the API server for the cluster's name
	var cluster string
	var size *setup.LogSize
	return func(ctx context.Context) (_ *status.Status, err error) {
		if settings == nil {
			if settings, cluster, err = cli.ReaderSettings(ctx, c); err != nil {
				settings = nil
				return nil, err
			}
			size = &setup.LogSize{Settings: settings, Cluster: cluster}
		}
		local, why := f.readLocal(ctx, settings, cluster)
		if local != nil {
			return local, nil
		}
		store, err := setup.OpenPast(ctx, settings, cluster)
		if err != nil {
			return nil, errors.Join(err, why)
		}
		defer store.Close()
		found, err := status.Read(ctx, store)
		if err != nil {
			return nil, fmt.Errorf("read the checkpoint: %w", err)
		}
		found.Log = size.Get(ctx)
		o := status.Options{Cluster: cluster, Now: time.Now(), StaleAfter: status.StaleAfter(settings.Source.Watermarks),
			SinkPage: setup.SinkOf(settings).Page}
		s := status.Make(o, found, nil)
		s.Notes = append(s.Notes, "read from the checkpoint: states, rates and errors are known to the running exporters alone "+
			"(--url)")
		if why != nil {
			s.Notes = append(s.Notes, "the exporter of this machine was asked: "+plain.Redact(why.Error()))
		}
		return s, nil
	}
}

func (f *statusFlags) fetch(ctx context.Context) (*status.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, setup.RequestLimit)
	defer cancel()
	address := strings.TrimRight(f.url, "/") + "/status.json"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if f.tokenFile != "" {
		token, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return nil, fault.Usage("--token-file: " + err.Error())
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask the exporter for its status: %w: is it running, and --url its KUBECDC_LISTEN?", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<20))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the status of %s: %w", address, err)
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("%s answers %s: --token-file names the token that it wants (KUBECDC_HTTP_ACCESS)", address,
			answer.Status)
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answers %s", address, answer.Status)
	}
	var s status.Status
	if err = json.Unmarshal(text, &s); err == nil && (s.Time.IsZero() || s.Healthy != (len(s.Problems) == 0)) {
		err = errors.New("the JSON has another content")
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no status of an exporter: %w", address, err)
	}
	return &s, nil
}
