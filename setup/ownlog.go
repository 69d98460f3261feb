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
)

// A cluster that is made again under the same name, as with kind, is another one. With the embedded log in its default place, and the name of
// the kubeconfig's context, each has a log of its own: the first one under the name, and later ones under NAME@ and the start of their uid.

// EmbeddedLog is a log in a file in its default place.
type EmbeddedLog struct {
	Cluster string    `json:"cluster"` // its name
	UID     string    `json:"uid"`
	Changed time.Time `json:"changed"` // when the exporter wrote to it last
	Bytes   int64     `json:"bytes"`
	Path    string    `json:"path"`
}

// EmbeddedLogs returns the logs in their default place, the one that was written last first. One that can't be read is left out.
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

// choosesLog reports whether the name of the cluster is only that of a kubeconfig's context, and its log an embedded one in its default place.
func (t *Cluster) choosesLog(c *config.Config) bool {
	return c.Source.Cluster == "" && t.Cluster != "" && t.Origin != config.FromPod && SinkOf(c).InCheckpoint && c.Checkpoint.Location.Reveal() == ""
}

// ChooseLog gives the cluster, once it is identified, the name that its log has. It returns the logs of earlier clusters of its name.
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

// askFor is how long the API server may take to say which cluster it is. Its log can be read without it.
const askFor = 2 * time.Second

// ChooseLogToRead gives the cluster the name of the log to ask: that of the cluster that can be reached, or the newest one of its name. It
// returns what is to be said about that. A credential plugin is not run for it.
func (t *Cluster) ChooseLogToRead(ctx context.Context, c *config.Config) (note string, err error) {
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
		step := dependency.Step{For: "the API server", Limit: askFor}
		if dependency.Once(ctx, step, func(ctx context.Context) error { return t.Identify(ctx, nil) }) == nil {
			earlier, err := t.ChooseLog(ctx, c)
			if err == nil && len(earlier) == len(logs) {
				err = &NoLogError{Cluster: name, Earlier: earlier}
			}
			return "", err
		}
	}
	if t.Cluster = logs[0].Cluster; len(logs) > 1 {
		note = fmt.Sprintf("the cluster can't be reached: this is from the newest of %d logs of its name, of cluster %s (exporter logs lists them)",
			len(logs), t.Cluster)
	}
	return note, nil
}

// NoLogError says that there is no log of the cluster yet.
type NoLogError struct {
	Cluster string
	Earlier []EmbeddedLog // of other clusters of that name
}

func (e *NoLogError) Error() string {
	text := "there is no log of cluster " + e.Cluster + " yet: start exporter run"
	for _, l := range e.Earlier {
		text += "\na cluster of that name that was there before has one, until " + l.Changed.Format(time.DateTime) + ": --cluster " + l.Cluster + " asks it"
	}
	return text
}

// RemoveOldLogs removes the logs of earlier clusters that nothing was written to for as long as changes are kept.
func RemoveOldLogs(earlier []EmbeddedLog, c *config.Config) (removed []string) {
	for _, l := range earlier {
		if time.Since(l.Changed) < time.Duration(c.Sink.SQLiteHistory) {
			continue
		}
		for _, end := range []string{"-wal", "-shm", ".lock", ""} {
			_ = os.Remove(l.Path + end)
		}
		removed = append(removed, l.Path)
	}
	return removed
}
