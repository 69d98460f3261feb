package inspect

import (
	"context"
	"errors"
	"net"
	"os"

	"kubecdc/config"
	"kubecdc/status"
)

// readLocal returns the status of the exporter on this machine. It returns nil if no exporter has left its address, or if the
// address leads to something else, for example after a kill. why says why a running exporter did not give its status.
func (f *statusFlags) readLocal(ctx context.Context, settings *config.Config, cluster string) (s *status.Status, why error) {
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
