package api

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubecdc/cmd/exporter/cli"
	"kubecdc/config"
	"kubecdc/internal/plain"
	"kubecdc/internal/web"
	"kubecdc/mirror"
	"kubecdc/observe"
	"kubecdc/setup"
	"kubecdc/sinks"
)

// shown returns what shows the progress of a mirror, and a log whose lines remove the bar.
func shown(c *cobra.Command) (*cli.Progress, *slog.Logger) {
	show := cli.NewProgress(c.ErrOrStderr(), "", 0, slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil)))
	return show, slog.New(slog.NewTextHandler(show, nil))
}

// mirrorOf returns the mirror of a log, and its reader, if each request would read all of the log. Otherwise the mirror is nil.
func mirrorOf(ctx context.Context, log sinks.ReadCloser, settings *config.Config, cluster string, logger *slog.Logger,
	show *cli.Progress) (*mirror.Mirror, sinks.ReadCloser, error,
) {
	from, isCopier := log.(sinks.Copier)
	if !isCopier {
		return nil, log, nil
	}
	return setup.OpenMirror(ctx, from, settings, cluster, logger, show.Show)
}

// whileFilling answers what probes and Prometheus ask about a mirror. While the mirror has nothing, it refuses other requests. It
// is ready once it has come to the log's end. Later it may fall behind. It remains ready, because no other Pod has more of the
// log.
func whileFilling(m *mirror.Mirror, access web.Access, log *slog.Logger, next http.Handler) http.Handler {
	metrics := observe.Guard(access, log, observe.MirrorMetrics(func() time.Time { return m.Progress().UpTo }))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := m.Progress()
		isReadyz, isProbe := r.URL.Path == "/readyz", r.URL.Path == "/healthz" || r.URL.Path == "/livez"
		switch {
		case r.URL.Path == "/metrics":
			metrics.ServeHTTP(w, r)
		case isReadyz && p.Complete:
			plain.Fprintf(w, "ok: the mirror has the log up to %s ago\n", time.Since(p.UpTo).Round(time.Second))
		case isReadyz || p.UpTo.IsZero() && !isProbe:
			text := fmt.Sprintf("the mirror of the topics fills: it has %d of %d records", p.Done, p.Total)
			status := apierrors.NewServiceUnavailable(text).Status()
			status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(int(status.Code))
			_ = json.NewEncoder(w).Encode(status)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
