package servers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"syscall"
)

// Registry is a real schema registry, Apicurio, which speaks Confluent's API. It keeps schemas in memory: a restart loses them.
type Registry struct {
	URL   string // URL of Confluent's API, through Proxy
	Proxy *Proxy

	port       int
	management int // port of its health checks and metrics, which can't be turned off
	home       string
	instance   *instance
	proc       *process
}

// StartRegistry starts a registry on a free loopback port. It is ready when it returns.
func StartRegistry(ctx context.Context) (*Registry, error) {
	r, err := newRegistry()
	if err != nil {
		return nil, err
	}
	return r, launch(ctx, r, r.instance, r.start)
}

func newRegistry() (*Registry, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	r := &Registry{}
	if r.home, err = registryHome(dir); err != nil {
		return nil, err
	}
	if !exists(r.home) {
		return nil, fmt.Errorf("no Apicurio at %s: %s", r.home, howToInstallRegistry)
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	r.port, r.management = ports[0], ports[1]
	if r.Proxy, err = NewProxy(loopback(r.port)); err != nil {
		return nil, err
	}
	r.URL = "http://" + r.Proxy.Address + registryPath
	r.instance, err = newInstance(dir, "registry")
	return r, err
}

// registryPath is where Apicurio has Confluent's API.
const registryPath = "/apis/ccompat/v7"

func (r *Registry) start(ctx context.Context) (err error) {
	r.proc, err = startProcess(command{name: "apicurio", path: registryJava(r.home), dir: r.home, log: r.instance.path("registry.log"),
		args: []string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData",
			"-Djava.io.tmpdir=" + r.instance.dir, "-Dquarkus.http.host=127.0.0.1", "-Dquarkus.http.port=" + strconv.Itoa(r.port),
			"-Dquarkus.management.host=127.0.0.1", "-Dquarkus.management.port=" + strconv.Itoa(r.management),
			"-Dquarkus.http.access-log.enabled=false",
			"-jar", filepath.Join(r.home, "quarkus-run.jar")}})
	if err != nil {
		return err
	}
	return r.proc.awaitReady(ctx, func(ctx context.Context) error {
		return probeURL(ctx, http.DefaultClient, "http://"+loopback(r.port)+registryPath+"/subjects")
	})
}

// Stop stops the registry and removes its folder.
func (r *Registry) Stop() error {
	if !unregister(r) {
		return nil
	}
	r.Proxy.Close()
	return errors.Join(r.proc.stop(syscall.SIGTERM), r.instance.close())
}
