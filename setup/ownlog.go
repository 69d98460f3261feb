package setup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kubecdc/checkpoint/sqlite"
	"kubecdc/config"
	"kubecdc/internal/dependency"
	"kubecdc/sinks"
)

// A cluster that is created again under the same name, as with kind, is another cluster. Each one gets a new log, if the embedded
// log is in its default place and has the name of the kubeconfig's context. The first log has that name. Later logs have NAME@
// and the start of their uid.

// EmbeddedLog is a log in a file in its default place.
type EmbeddedLog struct {
	Cluster string    `json:"cluster"` // the cluster's name
	UID     string    `json:"uid"`
	Changed time.Time `json:"changed"` // when the exporter last wrote to it
	Bytes   int64     `json:"bytes"`
	Path    string    `json:"path"`
}

// EmbeddedLogs returns the logs in their default place, the one that was written last first. It omits logs that can't be read.
func EmbeddedLogs(ctx context.Context, c *config.Config) (all []EmbeddedLog, err error) {
	place, err := c.DefaultFile("")
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(place), "*-sqlite.db"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		cluster, uid, err := sqlite.BoundTo(ctx, path)
		if err != nil || cluster == "" {
			continue
		}
		log := EmbeddedLog{Cluster: cluster, UID: uid, Path: path}
		for _, file := range []string{path, path + "-wal"} {
			if info, err := os.Stat(file); err == nil {
				log.Bytes += info.Size()
				log.Changed = slices.MaxFunc([]time.Time{log.Changed, info.ModTime()}, time.Time.Compare)
			}
		}
		all = append(all, log)
	}
	slices.SortFunc(all, func(a, b EmbeddedLog) int { return b.Changed.Compare(a.Changed) })
	return all, nil
}

// choosesLog reports whether the cluster is only named by a kubeconfig's context, and its log is embedded and in its default
// place.
func (t *Cluster) choosesLog(c *config.Config) bool {
	return c.Source.Cluster == "" && t.Cluster != "" && t.Origin != config.FromPod && SinkOf(c).InCheckpoint && c.Checkpoint.Location.Reveal() == ""
}

// ChooseLog names the cluster like its embedded log. If only other clusters have logs of its name, the cluster gets a new name.
// It returns these other logs. It does nothing in a Pod, or before the cluster is identified. It also does nothing if the
// settings name the cluster or the checkpoint, or if the log is not embedded.
func (t *Cluster) ChooseLog(ctx context.Context, c *config.Config) (earlier []EmbeddedLog, err error) {
	if !t.choosesLog(c) || t.Identity.UID == "" {
		return nil, nil
	}
	logs, err := t.logsOfItsName(ctx, c)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(logs, func(l EmbeddedLog) bool { return l.UID == t.Identity.UID || l.UID == "" }); i >= 0 {
		t.Cluster = logs[i].Cluster
		return slices.Delete(logs, i, i+1), nil
	}
	if len(logs) > 0 {
		t.Cluster += "@" + t.Identity.UID[:min(8, len(t.Identity.UID))]
	}
	return logs, nil
}

func (t *Cluster) logsOfItsName(ctx context.Context, c *config.Config) ([]EmbeddedLog, error) {
	logs, err := EmbeddedLogs(ctx, c)
	return slices.DeleteFunc(logs, func(l EmbeddedLog) bool {
		return l.Cluster != t.Cluster && !strings.HasPrefix(l.Cluster, t.Cluster+"@")
	}), err
}

// askFor is how long the API server may take to identify the cluster. Its log can be read without that.
const askFor = 2 * time.Second

// ChooseLogToRead sets the cluster's name to the name of the log to read. If the cluster can be reached, that is its log,
// otherwise the newest log of its name. It returns a message about the choice. It does not run a credential plugin.
func (t *Cluster) ChooseLogToRead(ctx context.Context, c *config.Config) (message string, err error) {
	if !t.choosesLog(c) {
		return "", nil
	}
	logs, err := t.logsOfItsName(ctx, c)
	if err != nil {
		return "", err
	}
	if len(logs) == 0 {
		return "", &NoLogError{Cluster: t.Cluster}
	}
	name := t.Cluster
	if t.REST.ExecProvider == nil && t.REST.AuthProvider == nil {
		step := dependency.Step{Awaited: "the API server", Limit: askFor}
		if dependency.Once(ctx, step, func(ctx context.Context) error { return t.Identify(ctx, nil) }) == nil {
			earlier, err := t.ChooseLog(ctx, c)
			if err == nil && len(earlier) == len(logs) {
				err = &NoLogError{Cluster: name, Earlier: earlier}
			}
			return "", err
		}
	}
	if t.Cluster = logs[0].Cluster; len(logs) > 1 {
		message = fmt.Sprintf("the cluster can't be reached: this is from the newest of %d logs of its name, of cluster %s (exporter logs lists them)",
			len(logs), t.Cluster)
	}
	return message, nil
}

// NoLogError says that the cluster has no log yet.
type NoLogError struct {
	Cluster string
	Earlier []EmbeddedLog // the logs of other clusters with that name
}

func (e *NoLogError) Error() string {
	text := "there is no log of cluster " + e.Cluster + " yet: start exporter run"
	for _, l := range e.Earlier {
		text += "\na cluster of that name that was there before has one, until " + l.Changed.Format(time.DateTime) + ": --cluster " + l.Cluster + " asks it"
	}
	return text
}

// Is says that there is nothing of the cluster.
func (*NoLogError) Is(target error) bool { return target == sinks.ErrNoCluster }

// RemoveOldLogs removes logs of earlier clusters to which nothing was written for the length of the history. It returns their
// paths. A log that can't be removed remains as it is.
func RemoveOldLogs(earlier []EmbeddedLog, c *config.Config) (removed []string) {
	for _, l := range earlier {
		if time.Since(l.Changed) < time.Duration(c.Sink.SQLiteHistory) {
			continue
		}
		if os.Remove(l.Path) != nil {
			continue
		}
		for _, end := range []string{"-wal", "-shm", ".lock"} {
			_ = os.Remove(l.Path + end)
		}
		removed = append(removed, l.Path)
	}
	return removed
}
