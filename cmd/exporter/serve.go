package main

import (
	"log/slog"

	"kubecdc/config"
	"kubecdc/observe"
)

// serve starts the HTTP server that the settings describe.
func serve(settings *config.Config, cluster *config.Connection, watch *lifecycle, log *slog.Logger) (*observe.Server, error) {
	options := observe.ServerOptions{Listen: settings.Process.Listen, TLSCert: settings.HTTP.TLSCert, TLSKey: settings.HTTP.TLSKey,
		Log: log}
	switch settings.HTTP.Access {
	case "token":
		options.Access = observe.FileToken{Path: settings.HTTP.TokenFile}
	case "kubernetes":
		reviews, err := observe.NewReviews(cluster.REST)
		if err != nil {
			return nil, err
		}
		options.Access = reviews
	}
	server, err := observe.Serve(options, watch.Metrics, watch.status)
	if server != nil {
		scheme := "http://"
		if options.TLSCert != "" {
			scheme = "https://"
		}
		log.Info("status, health and metrics are served", "address", scheme+server.Addr()+"/", "access", settings.HTTP.Access)
	}
	return server, err
}
