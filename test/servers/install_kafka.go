package servers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
)

// A broker takes any cluster id of 16 bytes in base64.
const kafkaClusterID = "a3ViZWNkYy10ZXN0LTAwMA"

// The releases of Kafka: the POMs that name them.
const (
	newestKafka = "kafka.xml"
	olderKafka  = "kafka-older.xml" // to be upgraded from
)

// kafkaFolder holds a release's jars, a formatted data folder and an archive of loaded classes.
func kafkaFolder(dir, pom string) (string, error) {
	version, err := pomVersion(pom)
	return filepath.Join(dir, "kafka-"+version), err
}

func kafkaHome(dir, pom string) (string, error) {
	home, err := kafkaFolder(dir, pom)
	if err == nil && !exists(home) {
		err = fmt.Errorf("no Kafka at %s: %s", home, howToInstall)
	}
	return home, err
}

func (i *installer) installKafka(ctx context.Context) error {
	home, err := i.fetchKafka(ctx, newestKafka)
	if err != nil || exists(classArchive(home)) {
		return err
	}
	return i.step("start Kafka once and archive its classes, to start faster", func() error {
		return archiveClasses(ctx, classArchive(home))
	})
}

// installOlderKafka archives no classes: few tests start it.
func (i *installer) installOlderKafka(ctx context.Context) error {
	_, err := i.fetchKafka(ctx, olderKafka)
	return err
}

func (i *installer) fetchKafka(ctx context.Context, pom string) (home string, err error) {
	if home, err = kafkaFolder(i.dir, pom); err != nil {
		return "", err
	}
	if exists(home) {
		return home, i.ensure(ctx, javaTool)
	}
	if err := i.ensure(ctx, javaTool, mvnTool); err != nil {
		return "", err
	}
	if err := checkJava(ctx); err != nil {
		return "", err
	}
	return home, i.step("get Kafka's jars from Maven Central", func() error {
		return replaceDir(home, func(tmp string) error { return i.makeKafka(ctx, pom, tmp) })
	})
}

func (i *installer) makeKafka(ctx context.Context, pom, home string) error {
	if err := i.mavenJars(ctx, pom, filepath.Join(home, "libs")); err != nil {
		return err
	}
	return formatKafka(ctx, home)
}

// formatKafka makes the data folder that every broker starts with a copy of: formatting takes a second. It holds the SCRAM users.
func formatKafka(ctx context.Context, home string) error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	settings := kafkaBasics(filepath.Join(home, "template"), loopback(ports[0]), kafkaSession)
	settings["listeners"] = "CONTROLLER://" + loopback(ports[0]) + ",PLAINTEXT://" + loopback(ports[1])
	file := filepath.Join(home, "format.properties")
	if err := writeProperties(file, settings); err != nil {
		return err
	}
	args := []string{"kafka.tools.StorageTool", "format", "--cluster-id", kafkaClusterID, "--config", file}
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, KafkaUser, KafkaPassword))
	}
	p, err := startJava(home, "format Kafka's data folder", filepath.Join(home, "format.log"), nil, args...)
	if err != nil {
		return err
	}
	return p.wait(ctx)
}

// classArchive is what a JVM reads in place of most of Kafka's jars, which halves the time that a broker takes to start. A JVM
// that does not know it (of another version, or after the folder was moved) does without.
func classArchive(home string) string { return filepath.Join(home, "classes.jsa") }

const archiveFlag = "-XX:ArchiveClassesAtExit="

// archiveClasses has a broker write down, at its exit, which classes it used.
func archiveClasses(ctx context.Context, archive string) error {
	k, err := StartKafka(ctx, KafkaOptions{JavaFlags: []string{archiveFlag + archive}})
	if err != nil {
		return err
	}
	return errors.Join(k.proc.stop(syscall.SIGTERM), k.Stop())
}
