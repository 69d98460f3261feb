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
	logsqlite "kubecdc/sinks/sqlite"
)

// A cluster that is created again under the same name, for example with kind, is another cluster. Each such cluster gets a new
// log, if the embedded log is in its default place and has the name of the kubeconfig's context. The first log has that name.
// Later logs have NAME@ and the start of their uid.

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
		log.measure()
		all = append(all, log)
	}
	slices.SortFunc(all, func(a, b EmbeddedLog) int { return b.Changed.Compare(a.Changed) })
	return all, nil
}

func (l *EmbeddedLog) measure() {
	for _, file := range []string{l.Path, l.Path + "-wal"} {
		if info, err := os.Stat(file); err == nil {
			l.Bytes += info.Size()
			l.Changed = slices.MaxFunc([]time.Time{l.Changed, info.ModTime()}, time.Time.Compare)
		}
	}
}

// Mirrors returns the mirrors of topics. No exporter has one for its own log.
func Mirrors(ctx context.Context, c *config.Config) (all []EmbeddedLog, err error) {
	place, err := c.MirrorFile()
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(place), "*"+filepath.Ext(place)))
	for _, path := range paths {
		if names, err := logsqlite.Clusters(ctx, path); err == nil {
			log := EmbeddedLog{Cluster: strings.Join(names, ","), Path: path}
			log.measure()
			all = append(all, log)
		}
	}
	return all, err
}

// choosesLog reports whether the cluster is only named by a kubeconfig's context, and its log is embedded and in its default
// place.
func (t *Cluster) choosesLog(c *config.Config) bool {
	return c.Source.Cluster == "" && t.Cluster != "" && t.Origin != config.FromPod && SinkOf(c).InCheckpoint &&
		c.Checkpoint.Location.Reveal() == ""
}

// ChooseLog names the cluster like its embedded log, which another context may have named. If only other clusters have logs of
// its name, the cluster gets a new name. It returns these other logs. It does nothing in a Pod, or before the cluster is
// identified. It also does nothing if the settings name the cluster or the checkpoint, or if the log is not embedded.
func (t *Cluster) ChooseLog(ctx context.Context, c *config.Config) (others []EmbeddedLog, err error) {
	if !t.choosesLog(c) || t.Identity.UID == "" {
		return nil, nil
	}
	all, err := EmbeddedLogs(ctx, c)
	if err != nil {
		return nil, err
	}
	_, others = t.chooseLog(all)
	return others, nil
}

// chooseLog reports whether one of the logs is the identified cluster's.
func (t *Cluster) chooseLog(all []EmbeddedLog) (found bool, others []EmbeddedLog) {
	others = t.ofItsName(all)
	if i := slices.IndexFunc(others, func(l EmbeddedLog) bool { return l.UID == t.Identity.UID || l.UID == "" }); i >= 0 {
		t.Cluster = others[i].Cluster
		return true, slices.Delete(others, i, i+1)
	}
	if i := slices.IndexFunc(all, func(l EmbeddedLog) bool { return l.UID == t.Identity.UID }); i >= 0 {
		t.Cluster = all[i].Cluster
		return true, others
	}
	if len(others) > 0 {
		t.Cluster += "@" + t.Identity.UID[:min(8, len(t.Identity.UID))]
	}
	return false, others
}

// ofItsName returns the logs that have the cluster's name.
func (t *Cluster) ofItsName(all []EmbeddedLog) []EmbeddedLog {
	return slices.DeleteFunc(slices.Clone(all), func(l EmbeddedLog) bool {
		return l.Cluster != t.Cluster && !strings.HasPrefix(l.Cluster, t.Cluster+"@")
	})
}

// NamedOtherwise returns a message if the name of the cluster's log is not from the context with a name, or "".
func (t *Cluster) NamedOtherwise(context string) string {
	if t.Cluster == context || strings.HasPrefix(t.Cluster, context+"@") {
		return ""
	}
	return fmt.Sprintf("this cluster has a log already, of another context: its name there is %s", t.Cluster)
}

// askFor is how long the API server may take to identify the cluster. Its log can be read without that.
const askFor = 2 * time.Second

// ChooseLogToRead sets the cluster's name to the name of the log to read. If the cluster can be reached, that is its log,
// otherwise the newest log of its name. It returns a message about the choice. It does not run a credential plugin.
func (t *Cluster) ChooseLogToRead(ctx context.Context, c *config.Config) (message string, err error) {
	if !t.choosesLog(c) {
		return "", nil
	}
	all, err := EmbeddedLogs(ctx, c)
	if err != nil {
		return "", err
	}
	identified := false
	if len(all) > 0 && t.REST.ExecProvider == nil && t.REST.AuthProvider == nil {
		step := dependency.Step{Awaited: "the API server", Limit: askFor}
		identified = dependency.Once(ctx, step, func(ctx context.Context) error { return t.Identify(ctx, nil) }) == nil
	}
	return t.chooseToRead(all, identified)
}

// chooseToRead is ChooseLogToRead after the attempt to identify the cluster. A user may not be allowed to see its uid.
func (t *Cluster) chooseToRead(all []EmbeddedLog, identified bool) (message string, err error) {
	name, logs := t.Cluster, t.ofItsName(all)
	if identified && t.Identity.UID != "" {
		found, others := t.chooseLog(all)
		if !found {
			return "", &NoLogError{Cluster: name, Others: others}
		}
		return t.NamedOtherwise(name), nil
	}
	if len(logs) == 0 {
		return "", &NoLogError{Cluster: name}
	}
	if identified {
		return "", nil
	}
	if t.Cluster = logs[0].Cluster; len(logs) > 1 {
		message = fmt.Sprintf("the cluster can't be reached: this is from the newest of %d logs of its name, of cluster %s "+
			"(exporter logs lists them)",
			len(logs), t.Cluster)
	}
	return message, nil
}

// NoLogError says that the cluster has no log yet.
type NoLogError struct {
	Cluster string
	Others  []EmbeddedLog // the logs of other clusters with that name
}

func (e *NoLogError) Error() string {
	text := "there is no log of cluster " + e.Cluster + " yet: start exporter run"
	for _, l := range e.Others {
		text += "\nanother cluster of that name has one, last written at " + l.Changed.Format(time.DateTime) + ": --cluster " +
			l.Cluster + " asks it"
	}
	return text
}

// Is says that there is nothing of the cluster.
func (*NoLogError) Is(target error) bool { return target == sinks.ErrNoCluster }

// RemoveOldLogs removes logs of other clusters to which nothing was written for the length of the history. It returns their
// paths. A log that can't be removed remains as it is.
func RemoveOldLogs(others []EmbeddedLog, c *config.Config) (removed []string) {
	for _, l := range others {
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
