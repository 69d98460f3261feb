package run

import (
	"errors"
	"log/slog"
	"net"
	"syscall"

	"kubecdc/audit"
	"kubecdc/config"
	"kubecdc/internal/fault"
	"kubecdc/internal/web"
	"kubecdc/observe"
	"kubecdc/setup"
)

// serve starts the HTTP server that the settings describe.
func serve(settings *config.Config, cluster *config.Connection, watch *lifecycle, log *slog.Logger) (*observe.Server, error) {
	access, err := setup.Access(settings, cluster)
	if err != nil {
		return nil, err
	}
	options := observe.ServerOptions{Access: access, Options: web.Options{Listen: settings.Process.Listen,
		TLSCert: settings.HTTP.TLSCert, TLSKey: settings.HTTP.TLSKey, Log: log}}
	if settings.Audit.TokenFile != "" {
		options.Audit, options.AuditAccess = audit.NewWebhook(watch.audit, log), web.FileToken{Path: settings.Audit.TokenFile}
	}
	server, err := observe.Serve(options, watch.Metrics, watch.status)
	if errors.Is(err, syscall.EADDRINUSE) && options.Listen == config.DefaultListen {
		options.Listen = "127.0.0.1:0"
		server, err = observe.Serve(options, watch.Metrics, watch.status)
	}
	if fault.Is[*net.OpError](err) {
		return nil, &config.Error{Problems: []config.Problem{listenProblem(options.Listen, err)}}
	}
	if server != nil {
		watch.url = server.URL() + "/"
		log.Info("status, health and metrics are served", "address", watch.url, "access", settings.HTTP.Access)
	}
	return server, err
}

func listenProblem(listen string, err error) config.Problem {
	p := config.Problem{Setting: "KUBECDC_LISTEN", Value: listen, What: err.Error(), Fix: "choose another address, or off"}
	if errors.Is(err, syscall.EADDRINUSE) {
		p.What, p.Fix = "another process listens there already", "end it, or choose another port, such as :8081, or off"
	}
	return p
}
