// Command kube is a real kube-apiserver and a real etcd in one binary, built from their Go modules. The project's tests need real
// servers, but may not need a container engine or a download site.
//
//	kube kube-apiserver --flags…
//	kube etcd --flags…
//
// It is one binary, since both share most of their code, which is then linked once.
package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"

	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	// Both programs read os.Args themselves.
	name := os.Args[1]
	os.Args = append([]string{name}, os.Args[2:]...)
	switch name {
	case "kube-apiserver":
		os.Exit(cli.Run(app.NewAPIServerCommand()))
	case "etcd":
		etcdmain.Main(os.Args)
	default:
		usage()
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: kube kube-apiserver|etcd [flags]")
	os.Exit(2)
}
