// Command servers installs the real servers that the tests and the demo use,
// and starts them by hand:
//
//	servers install [kubernetes] [kafka] [postgres] [pgbouncer] [registry]
//	servers up
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"kubecdc/test/servers"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "servers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) >= 1 && args[0] == "install":
		return install(ctx, args[1:])
	case len(args) == 1 && args[0] == "up":
		return up(ctx)
	}
	return errors.New("usage: servers install [kubernetes] [kafka] [postgres] [pgbouncer] [registry] | servers up")
}

func say(line string) { fmt.Fprintln(os.Stderr, line) }

func install(ctx context.Context, names []string) error {
	start := time.Now()
	var parts []servers.Part
	for _, name := range names {
		parts = append(parts, servers.Part(name))
	}
	missing, err := servers.Install(ctx, say, parts...)
	if err != nil {
		return err
	}
	if missing.Any() {
		return errors.New(missing.String())
	}
	say("servers installed: " + took(start))
	return nil
}

// up starts all that is there and runs until Ctrl-C. Its stdout is for eval.
func up(ctx context.Context) error {
	missing, err := servers.Install(ctx, say)
	if err != nil {
		return err
	}
	defer servers.StopAll()
	if err := start(ctx, missing); err != nil {
		return err
	}
	say("all up; Ctrl-C stops them")
	<-ctx.Done()
	return servers.StopAll()
}

func start(ctx context.Context, missing servers.Missing) error {
	began := time.Now()
	kube, err := servers.StartKubernetes(ctx, servers.KubernetesOptions{})
	if err != nil {
		return err
	}
	export("KUBECONFIG", kube.Kubeconfig)
	say("Kubernetes and etcd: " + took(began))
	if missing.Kafka == "" {
		if err := startKafka(ctx); err != nil {
			return err
		}
	}
	if missing.Postgres == "" {
		if err := startPostgres(ctx); err != nil {
			return err
		}
	}
	if missing.Any() {
		say(missing.String())
	}
	return nil
}

func startKafka(ctx context.Context) error {
	began := time.Now()
	kafka, err := servers.StartKafka(ctx, servers.KafkaOptions{})
	if err != nil {
		return err
	}
	export("KAFKA_BROKERS", kafka.Brokers[0])
	say("Kafka: " + took(began))
	return nil
}

func startPostgres(ctx context.Context) error {
	began := time.Now()
	postgres, err := servers.StartPostgres(ctx, servers.PostgresOptions{})
	if err != nil {
		return err
	}
	export("POSTGRES_URL", postgres.URL)
	say("Postgres: " + took(began))
	return nil
}

func export(name, value string) { fmt.Printf("export %s=%q\n", name, value) }

func took(since time.Time) string { return time.Since(since).Round(10 * time.Millisecond).String() }
