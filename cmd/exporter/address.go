package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"kubecdc/config"
	"kubecdc/status"
)

// leaveAddress notes where the status is served until gone is called; an empty url: nowhere. The caller has the checkpoint open, so an
// exporter that runs already keeps its address. Where no file can be, a command reads the checkpoint.
func leaveAddress(settings *config.Config, cluster, url string, log *slog.Logger) (gone func()) {
	if url == "" {
		return func() {}
	}
	path, err := settings.AddressFile(cluster)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, []byte(url), 0o600)
	}
	if err != nil {
		log.Debug("failed to note the address for exporter status, which reads the checkpoint instead", "error", err)
		return func() {}
	}
	return func() {
		if now, err := os.ReadFile(path); err == nil && string(now) == url { // else it is another exporter's
			_ = os.Remove(path)
		}
	}
}

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
