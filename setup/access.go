package setup

import (
	"kubecdc/config"
	"kubecdc/internal/web"
)

// Access returns who may ask a server of the exporter, by KUBECDC_HTTP_ACCESS; nil: everyone. Only reviews need the cluster.
func Access(settings *config.Config, cluster *config.Connection) (web.Access, error) {
	switch settings.HTTP.Access {
	case "token":
		return web.FileToken{Path: settings.HTTP.TokenFile}, nil
	case "kubernetes":
		return web.NewReviews(cluster.REST)
	}
	return nil, nil
}
