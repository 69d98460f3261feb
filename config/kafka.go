package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// topicPrefix matches what Kafka allows in the name of a topic, which may have 249 characters, resource and group included.
var topicPrefix = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,100}$`)

func (l *loader) checkKafka() {
	k := &l.c.Kafka
	for _, b := range k.Brokers {
		if !hostPort(b, false) {
			l.add("KUBECDC_KAFKA_BROKERS", fmt.Sprintf("%q is not host:port", redactValue(b)),
				"write host:port with commas between and no scheme, such as kafka-1:9092,kafka-2:9092")
		}
	}
	if !topicPrefix.MatchString(k.TopicPrefix) && k.TopicPrefix != "" {
		l.add("KUBECDC_KAFKA_TOPIC_PREFIX", "not a valid beginning of a topic's name",
			"use at most 100 letters, digits, dots, dashes and underscores")
	}
	if k.ReplicationFactor == 0 {
		l.add("KUBECDC_KAFKA_REPLICATION_FACTOR", "a topic can't have 0 replicas",
			"use 1 or more, or -1 for the broker's default")
	}
	if _, err := k.TopicConfig(); err != nil {
		l.add("KUBECDC_KAFKA_TOPIC_CONFIG", err.Error(),
			"write NAME=VALUE with the names of Kafka's topic settings, and commas between")
	}
	l.checkTLS(k)
	l.checkSASL(k)
}

var topicSetting = regexp.MustCompile(`^([a-z]+(?:\.[a-z]+)+)=(\S+)$`)

// retaining are the settings that decide for how long a topic retains its records: the log promises what KUBECDC_KAFKA_HISTORY
// says.
var retaining = []string{"cleanup.policy", "retention.ms", "retention.bytes", "min.compaction.lag.ms", "delete.retention.ms"}

// TopicConfig returns the values of KUBECDC_KAFKA_TOPIC_CONFIG by the settings' names. It fails if an entry is not NAME=VALUE,
// is there twice, or follows from KUBECDC_KAFKA_HISTORY.
func (k *Kafka) TopicConfig() (map[string]string, error) {
	found, wrong := map[string]string{}, []string{}
	for _, s := range k.TopicSettings {
		match := topicSetting.FindStringSubmatch(s)
		switch {
		case match == nil:
			wrong = append(wrong, fmt.Sprintf("%q is not NAME=VALUE", s))
		case slices.Contains(retaining, match[1]):
			wrong = append(wrong, match[1]+" follows from KUBECDC_KAFKA_HISTORY")
		case found[match[1]] != "":
			wrong = append(wrong, match[1]+" is there twice")
		default:
			found[match[1]] = match[2]
		}
	}
	if len(wrong) > 0 {
		return nil, errors.New(strings.Join(wrong, ", "))
	}
	return found, nil
}

func (l *loader) checkTLS(k *Kafka) {
	for _, name := range []string{"KUBECDC_KAFKA_TLS_CA", "KUBECDC_KAFKA_TLS_CERT", "KUBECDC_KAFKA_TLS_KEY",
		"KUBECDC_KAFKA_TLS_SERVER_NAME"} {
		if l.set(name) && !bool(k.TLS) && !l.bad["KUBECDC_KAFKA_TLS"] {
			l.add(name, "set, but KUBECDC_KAFKA_TLS is off", "set KUBECDC_KAFKA_TLS=on, or leave it out")
		}
	}
	if _, err := authorities(k.TLSCA); err != nil {
		l.add("KUBECDC_KAFKA_TLS_CA", fileError(err), "name a PEM file that this user can read")
	}
	l.checkCertificate("KUBECDC_KAFKA_TLS_CERT", k.TLSCert, "KUBECDC_KAFKA_TLS_KEY", k.TLSKey)
	away := slices.ContainsFunc(k.Brokers, func(b string) bool { return !Loopback(b) })
	if byEnv["KUBECDC_KAFKA_TLS"].applies(l.c) && !bool(k.TLS) && away && !l.bad["KUBECDC_KAFKA_TLS"] {
		l.warn("KUBECDC_KAFKA_TLS is off: whoever is on the network path to the brokers can read and change what is exported")
	}
}

// checkCertificate checks the files of a certificate and its key, which are read again at each connection.
func (l *loader) checkCertificate(name, cert, keyName, key string) {
	switch {
	case cert != "" && key == "":
		l.add(keyName, "not set, but there is a certificate", "name the PEM file of its key")
	case cert == "" && key != "":
		l.add(name, "not set, but there is a key", "name the PEM file of its certificate")
	case cert != "":
		if pair, err := tls.LoadX509KeyPair(cert, key); err != nil {
			l.add(name, err.Error(), "name PEM files of a certificate and its key that this user can read")
		} else if until := pair.Leaf.NotAfter; until.Before(time.Now()) {
			l.warn(name + ": the certificate expired at " + until.UTC().Format(time.RFC3339) +
				"; put a new one in its place: it is read at the next connection")
		}
	}
}

// TLSConfig returns the TLS configuration to dial with, or nil if TLS is off. Call it for each connection: it reads the
// certificate files, which may have been rotated.
func (k *Kafka) TLSConfig() (*tls.Config, error) {
	if !k.TLS {
		return nil, nil
	}
	c := &tls.Config{ServerName: k.TLSServerName, MinVersion: tls.VersionTLS12}
	var err error
	if c.RootCAs, err = authorities(k.TLSCA); err != nil {
		return nil, fmt.Errorf("read KUBECDC_KAFKA_TLS_CA: %w", err)
	}
	if k.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(k.TLSCert, k.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("read KUBECDC_KAFKA_TLS_CERT and _KEY: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// authorities reads a PEM file. It returns nil, which means the system's authorities, for no file.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("the file holds no PEM certificate")
	}
	return pool, nil
}

// fileError returns the reason of an error about a file, without the name of the system call.
func fileError(err error) string {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}
