package inspect

import (
	"context"
	"errors"
	"net"
	"os"

	"kubecdc/config"
	"kubecdc/status"
)

// local asks the exporter of this machine; nil: none has left its address, or what answers there is not the exporter of this cluster, as
// after a kill. why says why an exporter that is there does not tell its status.
func (f *statusFlags) local(ctx context.Context, settings *config.Config, cluster string) (s *status.Status, why error) {
	path, err := settings.AddressFile(cluster)
	if err != nil {
		return nil, nil
	}
	url, err := os.ReadFile(path)
	if err != nil {
		return nil, nil
	}
	asked := *f
	asked.url = string(url)
	s, err = asked.fetch(ctx)
	switch _, gone := errors.AsType[*net.OpError](err); {
	case gone:
		return nil, nil
	case err != nil:
		return nil, err
	case s.Cluster != cluster:
		return nil, nil
	}
	return s, nil
}
