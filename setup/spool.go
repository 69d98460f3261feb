package setup

import (
	"log/slog"

	"kubecdc/config"
	"kubecdc/sinks/spool"
)

// Spools returns where batches go while the sink is unreachable, or nil if they wait.
func Spools(c *config.Config, cluster *Cluster, log *slog.Logger) *spool.Folder {
	if c.Sink.SpoolSize == 0 || !SinkOf(c).Spools {
		return nil
	}
	path, err := c.SpoolFolder(cluster.Cluster)
	if err != nil {
		log.Warn("there is no spool: while the sink is away, nothing is read", "reason", err)
		return nil
	}
	cache, _ := checkpointMemory(c, SinkOf(c).Kind)
	return &spool.Folder{Path: path, MaxBytes: int64(c.Sink.SpoolSize) / int64(c.Slots.Count), Cluster: cluster.Cluster,
		ClusterUID: cluster.Binding.ID,
		ClusterIDs: cluster.Binding.Known.IDs(), CacheBytes: int(cache), Logger: log}
}
