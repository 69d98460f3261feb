package run

import (
	"log/slog"
	"os"
	"path/filepath"

	"kubecdc/config"
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
