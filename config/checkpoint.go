package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

func (l *loader) checkCheckpoint() {
	const name = "KUBECDC_CHECKPOINT"
	loc := l.c.Checkpoint.Location.Reveal()
	if l.c.Slots.Count > 1 && !l.c.Checkpoint.Location.IsPostgres() {
		l.warn("KUBECDC_SLOTS is above 1 with an SQLite checkpoint: only one process can use it, so the slots are not shared")
	}
	l.checkPostgresPassword(name, l.c.Checkpoint.Location, l.c.Checkpoint.PasswordFile)
	switch {
	case loc == "":
		if _, err := stateFolder(); err != nil {
			l.add(name, "not set, and "+err.Error(), "set it to sqlite:PATH or postgres://USER@HOST/DB")
		}
	case strings.HasPrefix(loc, "sqlite:"):
		l.checkSQLite(strings.TrimPrefix(loc, "sqlite:"))
	case strings.HasPrefix(loc, "postgres://"), strings.HasPrefix(loc, "postgresql://"):
		l.checkPostgres(name, l.c.Checkpoint.Location)
	default:
		l.add(name, "neither postgres://… nor sqlite:PATH", "write sqlite:/path/to/file.db or postgres://USER@HOST/DB")
	}
}

func (l *loader) checkSQLite(path string) {
	const name = "KUBECDC_CHECKPOINT"
	if path == "" {
		l.add(name, "sqlite: without a path", "write sqlite:/path/to/file.db")
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		l.add(name, "the path is a folder", "name a file in it: sqlite:"+filepath.Join(path, "kubecdc.db"))
	}
}

// checkPostgres lets the driver parse the URL. It does not repeat the driver's error, which could contain the password.
func (l *loader) checkPostgres(name string, d DSN) {
	if d == "" {
		return
	}
	u, err := url.Parse(d.Reveal())
	switch {
	case err != nil || !strings.HasPrefix(u.Scheme, "postgres") || splitsPassword(u):
		l.add(name, "not the URL of a Postgres database",
			"write postgres://USER:PASSWORD@HOST:5432/DB, and the characters @ : / ? # % of a password as %40 %3A %2F %3F "+
				"%23 %25")
	default:
		c, err := pgconn.ParseConfig(d.Reveal())
		if err == nil {
			l.checkPostgresTLS(name, c)
		}
		if file, ok := errors.AsType[*fs.PathError](err); ok {
			l.add(name, file.Error(), "name files that this user can read in sslrootcert, sslcert and sslkey")
		} else if err != nil {
			l.add(name, "the Postgres driver can't read its options",
				"write postgres://USER:PASSWORD@HOST:5432/DB?sslmode=…; known options are those of libpq")
		}
	}
}

// checkPostgresTLS warns of a server elsewhere that somebody else can listen to, or pose as. The driver tries one configuration
// after another. With sslmode=prefer, its default, one of them has no TLS.
func (l *loader) checkPostgresTLS(name string, c *pgconn.Config) {
	tries := []*pgconn.FallbackConfig{{Host: c.Host, TLSConfig: c.TLSConfig}}
	plain, unverified := false, false
	for _, try := range append(tries, c.Fallbacks...) {
		if strings.HasPrefix(try.Host, "/") || Loopback(net.JoinHostPort(try.Host, "0")) {
			continue
		}
		t := try.TLSConfig
		plain = plain || t == nil
		unverified = unverified || t != nil && t.InsecureSkipVerify && t.VerifyPeerCertificate == nil && t.VerifyConnection == nil
	}
	switch {
	case plain:
		l.warn(name + " lets the driver connect without TLS: whoever is on the network path can read and change what is " +
			"stored; " +
			"set sslmode=verify-full and sslrootcert in the URL")
	case unverified:
		l.warn(name + " does not check the server's certificate: anyone on the network path can pose as the database; " +
			"set sslmode=verify-full and sslrootcert in the URL")
	}
}

// splitsPassword reports whether a part of the password seems to be in the URL's path or options, since a character was not
// escaped. The driver would show it in its errors, as the name of a database.
func splitsPassword(u *url.URL) bool {
	for option := range u.Query() {
		if strings.Contains(option, "@") {
			return true
		}
	}
	return u.Fragment != "" || strings.Contains(u.EscapedPath(), "@")
}

// SQLitePath returns the checkpoint's file, or "" if the checkpoint is in Postgres. The default is a file in the user's
// state folder, one for each cluster and log, since a checkpoint describes one log and would be wrong for another.
func (c *Config) SQLitePath(cluster string) (string, error) {
	loc := c.Checkpoint.Location.Reveal()
	if path, ok := strings.CutPrefix(loc, "sqlite:"); ok {
		return path, nil
	}
	if loc != "" {
		return "", nil
	}
	return c.DefaultFile(cluster)
}

// DefaultFile returns the path of the checkpoint's default file, which is in the user's state folder. The file's owner makes the
// folder.
func (c *Config) DefaultFile(cluster string) (string, error) {
	folder, err := stateFolder()
	if err != nil {
		return "", fmt.Errorf("choose a default file for the checkpoint: %w; set KUBECDC_CHECKPOINT", err)
	}
	log := c.Sink.Kind
	if byEnv["KUBECDC_KAFKA_TOPIC_PREFIX"].applies(c) { // Kafka can hold several logs of one cluster
		log += "-" + c.Kafka.TopicPrefix
	}
	return filepath.Join(folder, fileSafe(cluster)+"-"+fileSafe(log)+".db"), nil
}

// MirrorFile returns the file in which exporter serve mirrors the topics.
func (c *Config) MirrorFile() (string, error) {
	folder, err := stateFolder()
	if err != nil {
		return "", fmt.Errorf("choose a file for the mirror: %w", err)
	}
	return filepath.Join(folder, unique(c.Kafka.TopicPrefix, c.Kafka.Brokers.String())+".mirror"), nil
}

// AddressFile returns the file in which exporter run records where it serves its status, for commands on this machine. Two
// configurations of the same cluster and checkpoint have the same file.
func (c *Config) AddressFile(cluster string) (string, error) {
	place := c.Checkpoint.Location.String()
	path, err := c.SQLitePath(cluster)
	if err == nil && path != "" {
		place, err = filepath.Abs(path)
	}
	if err != nil {
		return "", err
	}
	folder, err := stateFolder()
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, unique(cluster, place)+".address"), nil
}

// SpoolFolder returns the folder of the spool of a cluster. Exporters that have the same checkpoint have the same one.
func (c *Config) SpoolFolder(cluster string) (folder string, err error) {
	if folder = c.Sink.SpoolDir; folder == "" {
		if folder, err = stateFolder(); err != nil {
			return "", fmt.Errorf("choose a default folder for the spool: %w; set KUBECDC_SPOOL_DIR", err)
		}
	}
	place := c.Checkpoint.Location.String()
	if path, err := c.SQLitePath(cluster); err != nil || path != "" {
		if place, err = filepath.Abs(path); err != nil {
			return "", err
		}
	}
	return filepath.Join(folder, unique(cluster, place)+"-spool"), nil
}

// unique is the name of a file of a cluster and a checkpoint, or of topics and their brokers.
func unique(name, place string) string {
	sum := sha256.Sum256([]byte(name + "\x00" + place))
	return fileSafe(name) + "-" + hex.EncodeToString(sum[:4])
}

var unsafeInFile = regexp.MustCompile(`[^a-zA-Z0-9._-]+`)

func fileSafe(name string) string { return unsafeInFile.ReplaceAllString(name, "_") }

// stateFolder returns the folder for state, as the XDG base directory specification defines it.
func stateFolder() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "kubecdc"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || home == "/" || home == "/nonexistent" {
		return "", errors.New("this user has no home folder")
	}
	return filepath.Join(home, ".local", "state", "kubecdc"), nil
}
