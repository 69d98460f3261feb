// Package api has the commands that serve the log as a Kubernetes API.
package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubecdc/agent"
	"kubecdc/change/moment"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/config"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/internal/web"
	"kubecdc/serve"
	"kubecdc/setup"
	"kubecdc/sinks"
)

const serveHelp = `Serve the log as a read-only Kubernetes API: kubectl, k9s and other clients show the
cluster at a moment, or follow its present state.

  exporter serve &
  kubectl --server http://127.0.0.1:8001/at/2h get pods -A
  kubectl --server http://127.0.0.1:8001 get deploy -w

The paths /at/TIME, /at/RESOURCEVERSION and /at/checkpoint/SLOT/BATCH name a moment.
Without one, the end of the log is served. If an answer may lack something, kubectl
prints a warning that says what. Requests to write are refused. A path that begins with
/clusters/NAME is for another cluster of the log; --all-logs adds the logs in other
files. With KUBECDC_HTTP_ACCESS=token or kubernetes clients must log in (docs/serve.md).

A log in Kafka is copied into a file first, and followed. The file can be deleted at any
time. The first copy takes a minute for about a million changes.

A browser gets a timeline at /: what happened, the life of an object, and what the log
lacks.

exporter kubeconfig --at 2h prints a kubeconfig for one moment. exporter kubectl
--at 2h -- get pods runs kubectl for one moment, and needs no server.
`

// momentForms are the forms of moments in a path.
const momentForms = moment.Times | moment.Versions | moment.Checkpoints

// defaultServe is the default address of exporter serve, as of kubectl proxy.
const defaultServe = "127.0.0.1:8001"

// The server accepts so many connections, and requests at once. A watch takes a connection by HTTP/1.1, and a request of one by
// HTTP/2.
const (
	mostConnections = 500
	mostRequests    = 2000
)

// NewServe returns the command exporter serve.
func NewServe() *cobra.Command {
	listen, allLogs := "", false
	c := &cobra.Command{Use: "serve [flags]", Short: "Serve the log as a Kubernetes API, at any moment", Long: serveHelp,
		Args: cli.Args(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return runServe(c, listen, allLogs) }}
	c.Flags().StringVar(&listen, "address", defaultServe,
		"where to listen; without KUBECDC_HTTP_ACCESS only on the loopback, since everybody may ask")
	c.Flags().BoolVar(&allLogs, "all-logs", false,
		"serve under /clusters/NAME also the logs in other files of the default folder (exporter logs lists them)")
	return cli.ReadsLog(c, cli.OfServe)
}

func runServe(c *cobra.Command, listen string, allLogs bool) error {
	show, log := shown(c)
	ctx, fail := context.WithCancelCause(c.Context())
	defer fail(nil)
	settings, cluster, err := cli.ReaderSettings(ctx, c)
	if err != nil {
		return err
	}
	access, err := accessOf(c, settings)
	if err == nil {
		err = checkAddress(listen, access, settings)
	}
	if err != nil {
		return err
	}
	reader, err := setup.OpenLog(ctx, c.Name(), settings, cluster)
	if err != nil {
		return err
	}
	m, reader, err := mirrorOf(ctx, reader, settings, cluster, log, show)
	if err != nil {
		return err
	}
	defer reader.Close()
	if path, err := settings.SQLitePath(cluster); err == nil && path != "" && !allLogs {
		settings.Checkpoint.Location = config.DSN("sqlite:" + path) // this file is the log, of whatever cluster
	}
	if m != nil { // its file has all clusters
		settings.Sink.Kind, settings.Checkpoint.Location = "sqlite", config.DSN("sqlite:"+m.Path)
	}
	server, err := web.Listen(web.Options{Listen: listen, TLSCert: settings.HTTP.TLSCert, TLSKey: settings.HTTP.TLSKey,
		MostConnections: mostConnections, MostRequests: mostRequests, Log: log})
	if err != nil {
		return err
	}
	plain.Fprintf(c.ErrOrStderr(), "kubectl --server %s/at/2h get pods -A\n# the timeline for a browser: %s/\n", server.URL(),
		server.URL())
	clusters := serve.NewClusters(reader, access, log, openCluster(c, settings))
	defer clusters.Close()
	handler := withAgent(agent.Handler(clusters.Answers, cli.Version, access), clusters)
	if m != nil {
		handler = whileFilling(m, access, log, handler)
		go func() { fail(m.Run(ctx)) }()
	}
	if access == nil {
		handler = onlyForLoopback(handler)
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	server.Serve(server.Long(handler))
	if err := context.Cause(ctx); c.Context().Err() == nil {
		return err // the mirror's
	}
	return nil
}

// withAgent serves an agent's tools at /mcp.
func withAgent(tools, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			tools.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// accessOf returns who may send requests. The kubeconfig's cluster reviews tokens and rights.
func accessOf(c *cobra.Command, settings *config.Config) (web.Access, error) {
	if settings.HTTP.Access != "kubernetes" {
		return setup.Access(settings, nil)
	}
	_, cluster, _, err := config.Read(os.Environ(), c.Flags())
	if err != nil {
		return nil, err
	}
	return setup.Access(settings, cluster)
}

func checkAddress(address string, access web.Access, settings *config.Config) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fault.Usagef("--address %s: %v: write HOST:PORT, such as %s", address, err, defaultServe)
	}
	switch {
	case config.Loopback(address):
	case access == nil:
		return fault.Usagef("--address %s is not a loopback address, and there is no login: set KUBECDC_HTTP_ACCESS to token "+
			"or kubernetes, or serve it "+
			"through kubectl port-forward or ssh -L", address)
	case settings.HTTP.TLSCert == "":
		return fault.Usagef("--address %s is not a loopback address, and kubectl sends tokens only over TLS: set "+
			"KUBECDC_HTTP_TLS_CERT and "+
			"KUBECDC_HTTP_TLS_KEY", address)
	}
	return nil
}

// openCluster opens the log of another cluster. Only that cluster's API server knows who may read it.
func openCluster(c *cobra.Command, settings *config.Config) func(string) (sinks.ReadCloser, error) {
	return func(cluster string) (sinks.ReadCloser, error) {
		if settings.HTTP.Access == "kubernetes" {
			return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "clusters"}, cluster,
				errors.New("KUBECDC_HTTP_ACCESS=kubernetes reviews rights in one cluster: start exporter serve for the "+
					"other one"))
		}
		return setup.OpenLog(c.Context(), c.Name(), settings, cluster)
	}
}

// onlyForLoopback refuses requests for other hosts, since a page in a browser can resolve its own name to this address. It
// refuses WebSockets of other pages, which may read the answer.
func onlyForLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isLoopback := func(u *url.URL) bool { return config.Loopback(net.JoinHostPort(u.Hostname(), "0")) }
		if host := (&url.URL{Host: r.Host}); !isLoopback(host) {
			http.Error(w, "ask for 127.0.0.1 or localhost, not for "+strconv.Quote(host.Hostname()), http.StatusForbidden)
			return
		}
		if page, err := url.Parse(r.Header.Get("Origin")); web.IsSocket(r) && (err != nil || !isLoopback(page)) {
			http.Error(w, "a WebSocket without a login is for pages of this machine", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// momentPath returns the path of a moment. A time relative to now becomes absolute.
func momentPath(text string) (string, error) {
	m, err := cli.ParseMoment("--at", text, momentForms)
	switch {
	case err != nil:
		return "", err
	case m.Batch != nil:
		return fmt.Sprintf("/at/checkpoint/%s", m.Batch), nil
	case m.Version != "":
		return "/at/" + string(m.Version), nil
	case m == (moment.Moment{}):
		return "", nil
	}
	return "/at/" + m.Time.UTC().Format(time.RFC3339Nano), nil
}

// NewKubectl returns the command exporter kubectl, which runs kubectl against a moment of the log.
func NewKubectl() *cobra.Command {
	moment := ""
	c := &cobra.Command{Use: "kubectl --at TIME -- ARGUMENTS", Short: "Run kubectl against a moment of the log",
		Long: "Run kubectl against a moment of the log. No server is needed.\n\n  exporter kubectl --at 2h -- get deploy web " +
			"-n shop -o yaml\n",
		RunE: func(c *cobra.Command, args []string) error {
			path, err := momentPath(moment)
			if err != nil {
				return err
			}
			return runKubectl(c, path, args)
		}}
	c.Flags().StringVar(&moment, "at", "now", "the moment")
	return cli.ReadsLog(c, cli.OfLog)
}

func runKubectl(c *cobra.Command, path string, args []string) error {
	program, err := exec.LookPath("kubectl")
	if err != nil {
		return fmt.Errorf("exporter kubectl runs the program kubectl: %w", err)
	}
	show, log := shown(c)
	settings, cluster, err := cli.ReaderSettings(c.Context(), c)
	if err != nil {
		return err
	}
	reader, remark, err := cli.MirrorOrLog(c.Context(), c, settings, cluster)
	if err != nil {
		return err
	}
	m, reader, err := mirrorOf(c.Context(), reader, settings, cluster, log, show)
	if err == nil && m != nil {
		err = m.Update(c.Context())
		m.Close()
		show.End()
	}
	if err != nil {
		return err
	}
	defer reader.Close()
	if remark != "" {
		plain.Fprintln(c.ErrOrStderr(), "# "+remark)
	}
	server, err := web.Listen(web.Options{Listen: "127.0.0.1:0", MostConnections: mostConnections, MostRequests: mostRequests,
		Log: log})
	if err != nil {
		return err
	}
	defer server.Close()
	secret := "/" + rand.Text() // which other users of this machine can't guess
	go server.Serve(server.Long(onlyForLoopback(http.StripPrefix(secret, serve.New(reader, nil, log)))))
	dir, err := os.MkdirTemp("", "kubecdc-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "kubeconfig")
	text, err := kubeconfigOf(server.URL()+secret+path, nil, nil)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		return err
	}
	run := exec.CommandContext(c.Context(), program, args...)
	run.Env = append(os.Environ(), "KUBECONFIG="+file, "KUBECACHEDIR="+filepath.Join(dir, "cache"))
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, c.OutOrStdout(), c.ErrOrStderr()
	return run.Run()
}
