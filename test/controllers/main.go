// Command controllers is a real kube-controller-manager, built from its Go module. Its garbage collector and its namespace
// controller do what no API server does. It is a separate module, since few tests need it and it takes minutes to build.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"

	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func main() { os.Exit(cli.Run(app.NewControllerManagerCommand())) }
