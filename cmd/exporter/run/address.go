package run

import (
	"log/slog"
	"os"
	"path/filepath"

	"kubecdc/config"
)

// writeAddress writes the address of the status into a file, until remove is called. It does nothing if url is empty. The caller
// has the checkpoint open, so no other exporter owns the file. If it can't be written, exporter status reads the checkpoint.
func writeAddress(settings *config.Config, cluster, url string, log *slog.Logger) (remove func()) {
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
		log.Debug("failed to write the address for exporter status, which reads the checkpoint instead", "error", err)
		return func() {}
	}
	return func() {
		if now, err := os.ReadFile(path); err == nil && string(now) == url { // else another exporter has written it
			_ = os.Remove(path)
		}
	}
}
