package setup

import (
	"kubecdc/config"
	"kubecdc/internal/web"
)

// Access returns who may read a server of the exporter, according to KUBECDC_HTTP_ACCESS, or nil if everyone may. Only reviews
// need the cluster.
func Access(settings *config.Config, cluster *config.Connection) (web.Access, error) {
	switch settings.HTTP.Access {
	case "token":
		return web.FileToken{Path: settings.HTTP.TokenFile}, nil
	case "kubernetes":
		return web.NewReviews(cluster.REST)
	}
	return nil, nil
}
