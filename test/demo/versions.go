package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"

	"github.com/jackc/pgx/v5"
	"k8s.io/client-go/discovery"

	"kubecdc/test/servers"
)

// The servers say themselves which version they are. If one does not, its name is shown.

func kubeVersion(ctx context.Context, k *servers.Kubernetes) string {
	text := "kube-apiserver"
	if client, err := discovery.NewDiscoveryClientForConfig(k.Config); err == nil {
		if v, err := client.ServerVersion(); err == nil {
			text += " " + v.GitVersion
		}
	}
	text += " on etcd"
	if status, err := k.Etcd().Status(ctx, k.EtcdEndpoint); err == nil {
		text += " " + status.Version
	}
	return text
}

var kafkaSays = regexp.MustCompile(`Kafka version: (\S+)`)

func kafkaVersion(k *servers.Kafka) string {
	log, _ := os.ReadFile(filepath.Join(k.Dir, "kafka.log"))
	if found := kafkaSays.FindSubmatch(log); found != nil {
		return "Apache Kafka " + string(found[1])
	}
	return "Apache Kafka"
}

func postgresVersion(ctx context.Context, url string) string {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "PostgreSQL"
	}
	defer conn.Close(ctx)
	var version string
	_ = conn.QueryRow(ctx, "select split_part(current_setting('server_version'), ' ', 1)").Scan(&version)
	return "PostgreSQL " + version + ", for the checkpoint"
}
