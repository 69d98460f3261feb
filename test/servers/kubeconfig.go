package servers

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// ContextName is the name of the context, cluster and user in every kubeconfig that this package writes.
const ContextName = "kubecdc-test"

// WriteKubeconfig writes the access of the bearer of token, by address (the API server's or a Proxy's), to path. An empty token
// is the admin.
func (k *Kubernetes) WriteKubeconfig(path, address, token string) error {
	if token == "" {
		token = k.admin.Token
	}
	return writeKubeconfig(path, k.UserConfig(address, token))
}

func writeKubeconfig(path string, c *rest.Config) error {
	conf := api.NewConfig()
	conf.Clusters[ContextName] = &api.Cluster{Server: c.Host, CertificateAuthority: c.CAFile}
	conf.AuthInfos[ContextName] = &api.AuthInfo{Token: c.BearerToken}
	conf.Contexts[ContextName] = &api.Context{Cluster: ContextName, AuthInfo: ContextName}
	conf.CurrentContext = ContextName
	if err := clientcmd.WriteToFile(*conf, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
