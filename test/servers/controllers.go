package servers

import (
	"fmt"
	"strings"
)

// StartControllers runs some of the controllers of kube-controller-manager, each as its own service account. The binary is that of
// test/controllers. They stop with the rest.
func (k *Kubernetes) StartControllers(binary string, names ...string) (err error) {
	k.controllers, err = startProcess(command{
		name: "kube-controller-manager",
		path: binary,
		args: []string{"--kubeconfig=" + k.Kubeconfig, "--controllers=" + strings.Join(names, ","), "--use-service-account-credentials",
			"--leader-elect=false", "--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400"},
		env: []string{seldomCollect},
		log: k.instance.path("kube-controller-manager.log"),
	})
	if err != nil {
		return fmt.Errorf("start controllers: %w", err)
	}
	return nil
}
