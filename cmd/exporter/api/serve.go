// Package api has the commands that serve the log as a Kubernetes API.
package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kubecdc/change/moment"
	"kubecdc/cmd/exporter/cli"
	"kubecdc/config"
	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/serve"
	"kubecdc/setup"
	"kubecdc/sinks"
)

const serveHelp = `Serve the log as a Kubernetes API that can only be read: kubectl, k9s and any other
client see what the cluster was at a moment, or follow what it is.

  exporter serve &
  kubectl --server http://127.0.0.1:8001/at/2h get pods -A
  kubectl --server http://127.0.0.1:8001 get deploy -w

/at/TIME, /at/RESOURCEVERSION and /at/checkpoint/SLOT/BATCH are moments; without one
it is the end of the log. Where an answer may lack something, kubectl prints a warning
that says what. What writes is refused.

exporter kubeconfig --at 2h prints a kubeconfig for one moment; exporter kubectl
--at 2h -- get pods runs kubectl with it, and needs no server.
`

// momentForms are the moments that a path may name.
const momentForms = moment.Times | moment.Versions | moment.Checkpoints

// defaultServe is where the log is served, as kubectl proxy does it.
const defaultServe = "127.0.0.1:8001"

// NewServe returns the command exporter serve.
func NewServe() *cobra.Command {
	listen := ""
	c := &cobra.Command{Use: "serve [flags]", Short: "Serve the log as a Kubernetes API, at any moment", Long: serveHelp, Args: cli.Args(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := listenLoopback(listen)
			if err != nil {
				return err
			}
			plain.Fprintf(c.ErrOrStderr(), "kubectl --server http://%s/at/2h get pods -A\n", l.Addr())
			return serveLog(c.Context(), c, l)
		}}
	c.Flags().StringVar(&listen, "address", defaultServe, "where to listen: an address of the loopback, since everybody may ask")
	return cli.WithSettings(c, cli.OfLog)
}

func listenLoopback(address string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fault.Usagef("--address %s: %v: write HOST:PORT, such as %s", address, err, defaultServe)
	}
	if !config.Loopback(address) {
		return nil, fault.Usagef("--address %s is not of the loopback, and there is no login: serve it there through kubectl port-forward or ssh -L", address)
	}
	return net.Listen("tcp", address)
}

// serveLog serves until the context ends.
func serveLog(ctx context.Context, c *cobra.Command, l net.Listener) error {
	reader, err := openLog(ctx, c)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer reader.Close()
	log := slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))
	server := &http.Server{Handler: ofLoopback(serve.New(reader, log)), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// openLog opens the log, unless each question would read all of it.
func openLog(ctx context.Context, c *cobra.Command) (sinks.ReadCloser, error) {
	settings, cluster, err := cli.ReaderSettings(ctx, c)
	switch {
	case err != nil:
		return nil, err
	case settings.Sink.Kind == "kafka":
		return nil, fault.Usage("KUBECDC_SINK=kafka: a log in Kafka can't be served, since each question would read all of it: write what you ask about " +
			"into a file (exporter replay --to-sqlite FILE), and serve that (KUBECDC_SINK=sqlite KUBECDC_CHECKPOINT=sqlite:FILE)")
	}
	return setup.OpenLog(ctx, c.Name(), settings, cluster)
}

// ofLoopback refuses requests for other hosts: a page in a browser can make its own name lead here.
func ofLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := (&url.URL{Host: r.Host}).Hostname(); !config.Loopback(net.JoinHostPort(host, "0")) {
			http.Error(w, "ask for 127.0.0.1 or localhost, not for "+strconv.Quote(host), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// NewKubeconfig returns the command exporter kubeconfig.
func NewKubeconfig() *cobra.Command {
	at, server := "", ""
	c := &cobra.Command{Use: "kubeconfig --at TIME", Short: "Print a kubeconfig for a moment of exporter serve", Args: cli.Args(0, 0),
		Long: "Print a kubeconfig for a moment of exporter serve. How long ago (2h) becomes a time, so that the moment stays.\n\n" +
			"  exporter kubeconfig --at 2h > then && KUBECONFIG=then k9s\n",
		RunE: func(c *cobra.Command, _ []string) error {
			path, err := momentPath(at)
			if err != nil {
				return err
			}
			text, err := kubeconfigOf("http://" + server + path)
			if err == nil {
				_, err = c.OutOrStdout().Write(text)
			}
			return err
		}}
	c.Flags().StringVar(&at, "at", "now", "the moment")
	c.Flags().StringVar(&server, "address", defaultServe, "where exporter serve listens")
	return c
}

// momentPath is the path of a moment, which does not slide.
func momentPath(at string) (string, error) {
	m, err := cli.ParseMoment("--at", at, momentForms)
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
	return "/at/" + m.Time.UTC().Format(time.RFC3339), nil
}

func kubeconfigOf(url string) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["log"] = &clientcmdapi.Cluster{Server: url}
	config.Contexts["log"] = &clientcmdapi.Context{Cluster: "log"}
	config.CurrentContext = "log"
	return clientcmd.Write(*config)
}

// NewKubectl returns the command exporter kubectl.
func NewKubectl() *cobra.Command {
	at := ""
	c := &cobra.Command{Use: "kubectl --at TIME -- ARGUMENTS", Short: "Run kubectl against a moment of the log",
		Long: "Run kubectl against a moment of the log. No server is needed.\n\n  exporter kubectl --at 2h -- get deploy web -n shop -o yaml\n",
		RunE: func(c *cobra.Command, args []string) error {
			path, err := momentPath(at)
			if err != nil {
				return err
			}
			return runKubectl(c, path, args)
		}}
	c.Flags().StringVar(&at, "at", "now", "the moment")
	return cli.WithSettings(c, cli.OfLog)
}

func runKubectl(c *cobra.Command, path string, args []string) error {
	program, err := exec.LookPath("kubectl")
	if err != nil {
		return fmt.Errorf("exporter kubectl runs the program kubectl: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.Context())
	served := make(chan error, 1)
	go func() { served <- serveLog(ctx, c, l) }()
	text, err := kubeconfigOf("http://" + l.Addr().String() + path)
	if err != nil {
		cancel()
		return err
	}
	file, err := os.CreateTemp("", "kubeconfig-*")
	if err != nil {
		cancel()
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err == nil {
		run := exec.CommandContext(ctx, program, args...)
		run.Env = append(os.Environ(), "KUBECONFIG="+file.Name())
		run.Stdin, run.Stdout, run.Stderr = os.Stdin, c.OutOrStdout(), c.ErrOrStderr()
		err = run.Run()
	}
	cancel()
	if wrong := <-served; wrong != nil {
		return wrong
	}
	return err
}
