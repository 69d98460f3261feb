package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"k8s.io/client-go/discovery"

	"kubecdc/test/servers"
)

// result is what became of one version.
type result struct {
	Version string // v1.36.3
	Etcd    string // 3.6.8
	Date    string
	Suites  map[string]*outcome
}

// outcome is what became of one suite.
type outcome struct {
	Passed  int
	Skipped []string
	Failed  []string
}

// of joins a list of all suites.
func (r *result) of(list func(*outcome) []string) string {
	var all []string
	for _, s := range suites {
		if o := r.Suites[s.Name]; o != nil {
			all = append(all, list(o)...)
		}
	}
	return strings.Join(all, ", ")
}

func (r *result) failed() string { return r.of(func(o *outcome) []string { return o.Failed }) }

// suite is a run of go test.
type suite struct {
	Name     string
	packages []string
	tests    []string // parts of names; none: all
}

// suites are tests whose outcome depends on the API server.
var suites = []suite{
	{"list, watch, recovery, proofs", []string{"./source/reflector"}, []string{"GapOf300ChangesIs", "RandomGaps", "StreamingList", "CustomResource",
		"QuietStreamOfEvents", "TwoEtcds", "RecoverTogether", "RestoredEtcd", "PermissionWithdrawn", "ProofsWhile", "Finalizers", "BrokenNetwork", "Selector"}},
	{"discovery, schemas", []string{"./source/discovery", "./schema"}, nil},
	{"the exporter, with Kafka and Postgres", []string{"./test/e2e"}, []string{"EverythingDiesOnce", "PostgresSinkKeepsEveryChangeOnce",
		"WhatRecordsHold", "QuietEventsOutlive", "WhatWasRemovedUnseen", "AReplicaThatStandsBy", "VerifyFindsAndRepairsWhatATopic"}},
}

func (s suite) args() []string {
	args := append([]string{"-count=1", "-timeout", "20m"}, s.packages...)
	if len(s.tests) > 0 {
		args = append(args, "-run", strings.Join(s.tests, "|"))
	}
	return args
}

// run runs the suite and counts its tests, without subtests.
func (s suite) run(ctx context.Context) (*outcome, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, s.args()...)...)
	cmd.Stderr, cmd.Env = os.Stderr, append(os.Environ(), "KUBECDC_TEST_HISTORIES=40")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	o := new(outcome)
	for lines := json.NewDecoder(bufio.NewReader(out)); ; {
		var e struct{ Action, Package, Test, Output string }
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read what go test says: %w", err)
		}
		o.note(e.Action, e.Package, e.Test)
		if e.Action == "output" {
			fmt.Fprint(os.Stderr, e.Output)
		}
	}
	_ = cmd.Wait() // a failed test is in the outcome
	return o, ctx.Err()
}

func (o *outcome) note(action, pkg, test string) {
	switch {
	case test == "" && action == "fail":
		o.Failed = append(o.Failed, pkg)
	case test == "" || strings.Contains(test, "/"):
	case action == "pass":
		o.Passed++
	case action == "fail":
		o.Failed = append(o.Failed, test)
	case action == "skip":
		o.Skipped = append(o.Skipped, test)
	}
}

// ask starts the version alone, and asks it which it is.
func (r *result) ask(ctx context.Context) error {
	kube, err := servers.StartKubernetes(ctx, servers.KubernetesOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = kube.Stop() }()
	client, err := discovery.NewDiscoveryClientForConfig(kube.Config)
	if err != nil {
		return err
	}
	version, err := client.ServerVersion()
	if err != nil {
		return err
	}
	status, err := kube.Etcd().Status(ctx, kube.EtcdEndpoint)
	if err != nil {
		return err
	}
	r.Version, r.Etcd = version.GitVersion, status.Version
	return nil
}
