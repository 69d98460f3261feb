package servers

import (
	"context"
	"fmt"
	"net/http"
	"syscall"

	"k8s.io/client-go/rest"
)

// APIServer is one kube-apiserver. Several can share an etcd, as behind a load balancer.
type APIServer struct {
	URL        string       // https://127.0.0.1:port
	Address    string       // 127.0.0.1:port, a Proxy's target
	Kubeconfig string       // path of a file whose current context is an admin
	Config     *rest.Config // the same admin, without a client-side rate limit

	kube  *Kubernetes
	name  string
	flags []string // flags in addition to the common ones
	proc  *process
}

func (a *APIServer) args() []string {
	k := a.kube
	args := []string{"kube-apiserver",
		"--etcd-servers=" + k.EtcdEndpoint,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", portOf(a.Address)),
		"--tls-cert-file=" + k.files.serverCert,
		"--tls-private-key-file=" + k.files.serverKey,
		"--client-ca-file=" + k.files.ca,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + k.files.accountKey,
		"--service-account-signing-key-file=" + k.files.accountKey,
		"--token-auth-file=" + k.files.tokens,
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.0.0.0/24",
		// No controller manager makes the service accounts it would ask for.
		"--disable-admission-plugins=ServiceAccount",
		"--endpoint-reconciler-type=none",
		"--allow-privileged=true",
	}
	if k.opts.CompactionInterval != 0 {
		// Negative: never.
		args = append(args, "--etcd-compaction-interval="+max(0, k.opts.CompactionInterval).String())
	}
	for _, resource := range k.opts.OwnEtcd {
		args = append(args, "--etcd-servers-overrides="+resource+"#"+k.second.endpoint)
	}
	return append(append(args, k.opts.APIServerFlags...), a.flags...)
}

// Start starts the server on the port it had before, and waits until it is ready and the first namespaces exist.
func (a *APIServer) Start(ctx context.Context) error { return oneAtATime(ctx, a.start) }

func (a *APIServer) start(ctx context.Context) (err error) {
	a.proc, err = startProcess(command{
		name: a.name,
		path: a.kube.binary,
		args: a.args(),
		env:  []string{seldomCollect},
		log:  a.kube.instance.path(a.name + ".log"),
	})
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(a.Config)
	if err != nil {
		return fmt.Errorf("start %s: %w", a.name, err)
	}
	defer client.CloseIdleConnections()
	return a.proc.awaitReady(ctx, func(ctx context.Context) error { return a.ready(ctx, client) })
}

func (a *APIServer) ready(ctx context.Context, client *http.Client) error {
	if err := probeURL(ctx, client, a.URL+"/readyz"); err != nil {
		return err
	}
	return probeURL(ctx, client, a.URL+"/api/v1/namespaces/default")
}

// Stop ends the server as a rollout does: by SIGTERM.
func (a *APIServer) Stop() error { return a.proc.stop(syscall.SIGTERM) }

// Kill is kill -9.
func (a *APIServer) Kill() { a.proc.kill() }

// Restart is Stop, then Start.
func (a *APIServer) Restart(ctx context.Context) error {
	if err := a.Stop(); err != nil {
		return err
	}
	return a.Start(ctx)
}
