// Command policy measures what the policy that tells who costs the API server (docs/who.md). Clients write ConfigMaps to a real
// kube-apiserver that writes audit events of level Metadata to a file, in turn without the policy and with it.
//
//	go run ./bench/policy -pairs 2 -during 20s -clients 8
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"

	"kubecdc/audit"
	"kubecdc/test/auditpolicy"
	"kubecdc/test/child"
	"kubecdc/test/servers"
)

// The go command that runs it passes no SIGTERM on.
func init() { child.EndWithParent() }

func main() {
	b := &bench{}
	pairs := flag.Int("pairs", 2, "slices without the policy, each followed by one with it")
	flag.DurationVar(&b.during, "during", 20*time.Second, "how long a slice is measured, after a warm-up of a quarter of that")
	flag.IntVar(&b.clients, "clients", 8, "clients that write at once, each one request after another")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := b.run(ctx, *pairs)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "policy:", err)
		os.Exit(1)
	}
}

type bench struct {
	during  time.Duration
	clients int
	kube    *servers.Kubernetes
	events  string // the audit log
	api     kubernetes.Interface
}

func (b *bench) run(ctx context.Context, pairs int) error {
	folder, err := os.MkdirTemp("", "policy")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	b.events = filepath.Join(folder, "events")
	b.kube, err = servers.StartKubernetes(ctx, servers.KubernetesOptions{Audit: &servers.AuditOptions{Level: "Metadata", File: b.events}})
	if err != nil {
		return err
	}
	defer func() { _ = b.kube.Stop() }()
	if b.api, err = kubernetes.NewForConfig(b.kube.Config); err != nil {
		return err
	}
	fmt.Println("| the policy | requests a second | median | p99 | CPU of the API server a request |\n|---|--:|--:|--:|--:|")
	all := map[bool][]slice{}
	for range pairs {
		for _, withPolicy := range []bool{false, true} {
			if err := b.set(ctx, withPolicy); err != nil {
				return err
			}
			s, err := b.measure(ctx)
			if err != nil {
				return err
			}
			all[withPolicy] = append(all[withPolicy], s)
			s.print(named(withPolicy))
		}
	}
	for _, withPolicy := range []bool{false, true} {
		medians(all[withPolicy]).print("median " + named(withPolicy))
	}
	return nil
}

func named(withPolicy bool) string {
	if withPolicy {
		return "with"
	}
	return "without"
}

func (s slice) print(name string) {
	fmt.Printf("| %s | %.0f | %.2f ms | %.2f ms | %.0f us |\n", name, s.rate, s.median, s.p99, s.cpu)
}

func medians(all []slice) slice {
	column := func(value func(slice) float64) float64 {
		values := make([]float64, 0, len(all))
		for _, s := range all {
			values = append(values, value(s))
		}
		slices.Sort(values)
		n := len(values)
		return (values[(n-1)/2] + values[n/2]) / 2
	}
	return slice{column(func(s slice) float64 { return s.rate }), column(func(s slice) float64 { return s.median }),
		column(func(s slice) float64 { return s.p99 }), column(func(s slice) float64 { return s.cpu })}
}

// set puts the policy there or takes it away, and waits until the API server goes by that.
func (b *bench) set(ctx context.Context, withPolicy bool) error {
	set := auditpolicy.Delete
	if withPolicy {
		set = auditpolicy.Create
	}
	if err := set(ctx, b.kube.Config); err != nil {
		return err
	}
	for {
		if announced, err := b.tells(ctx); err != nil || announced == withPolicy {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// tells reports whether the event of a request has what the policy tells.
func (b *bench) tells(ctx context.Context) (bool, error) {
	name := servers.UniqueName()
	if err := b.create(ctx, name); err != nil {
		return false, err
	}
	f, err := os.Open(b.events)
	if err != nil {
		return false, err
	}
	defer f.Close()
	end, err := f.Stat()
	if err != nil {
		return false, err
	}
	last := make([]byte, min(end.Size(), 64<<10))
	if _, err := f.ReadAt(last, end.Size()-int64(len(last))); err != nil {
		return false, err
	}
	for line := range strings.Lines(string(last)) {
		if strings.Contains(line, `"`+name+`"`) && strings.HasPrefix(line, "{") {
			return strings.Contains(line, "/"+audit.Annotation), nil
		}
	}
	return false, fmt.Errorf("the audit log has no event of the ConfigMap %s", name)
}
