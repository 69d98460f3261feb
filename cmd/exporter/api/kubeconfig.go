package api

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kubecdc/cmd/exporter/cli"
	"kubecdc/internal/plain"
)

const kubeconfigHelp = `Print a kubeconfig for a moment of exporter serve. A duration (2h) becomes a time, so that the
moment does not move.

  exporter kubeconfig --at 2h > then && KUBECONFIG=then k9s

For an address with https it has the token or the credential plugin of the present
kubeconfig's context, which exporter serve demands with KUBECDC_HTTP_ACCESS=kubernetes.

  exporter kubeconfig --at 2h --address https://past.example.com --ca ca.crt > then`

// NewKubeconfig returns the command exporter kubeconfig.
func NewKubeconfig() *cobra.Command {
	moment, server, cluster, ca := "", "", "", ""
	c := &cobra.Command{Use: "kubeconfig --at TIME", Short: "Print a kubeconfig for a moment of exporter serve",
		Args: cli.Args(0, 0), Long: kubeconfigHelp,
		RunE: func(c *cobra.Command, _ []string) error {
			path, err := momentPath(moment)
			if err != nil {
				return err
			}
			if !strings.Contains(server, "://") {
				server = "http://" + server
			}
			if cluster != "" {
				path = "/clusters/" + url.PathEscape(cluster) + path
			}
			var authority []byte
			if ca != "" {
				if authority, err = os.ReadFile(ca); err != nil {
					return err
				}
			}
			var login *clientcmdapi.AuthInfo
			if strings.HasPrefix(server, "https://") {
				login = loginOf(c)
			}
			text, err := kubeconfigOf(server+path, authority, login)
			if err == nil {
				_, err = c.OutOrStdout().Write(text)
			}
			return err
		}}
	c.Flags().StringVar(&moment, "at", "now", "the moment")
	c.Flags().StringVar(&cluster, "cluster", "", "a cluster of the log, by its name (default: the one that exporter serve reads)")
	c.Flags().StringVar(&server, "address", defaultServe, "where exporter serve listens, as HOST:PORT or as a URL")
	c.Flags().StringVar(&ca, "ca", "", "PEM `file` of the authority that has signed the server's certificate")
	return c
}

// loginOf returns how the present context logs in, or nil. A client certificate is no login for exporter serve.
func loginOf(c *cobra.Command) *clientcmdapi.AuthInfo {
	config, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	why := "the kubeconfig has no context with a token or a credential plugin"
	if err != nil {
		why = err.Error()
	} else if context := config.Contexts[config.CurrentContext]; context != nil && config.AuthInfos[context.AuthInfo] != nil {
		user := config.AuthInfos[context.AuthInfo]
		if user.Token != "" || user.TokenFile != "" || user.Exec != nil {
			return &clientcmdapi.AuthInfo{Token: user.Token, TokenFile: user.TokenFile, Exec: user.Exec}
		}
		if user.ClientCertificate != "" || len(user.ClientCertificateData) > 0 {
			why = fmt.Sprintf("context %s logs in with a client certificate, which only the API server knows",
				config.CurrentContext)
		}
	}
	plain.Fprintf(c.ErrOrStderr(), "# %s: kubectl --token=\"$(kubectl create token SERVICEACCOUNT)\" logs in\n", why)
	return nil
}

func kubeconfigOf(url string, authority []byte, login *clientcmdapi.AuthInfo) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["log"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: authority}
	config.Contexts["log"] = &clientcmdapi.Context{Cluster: "log"}
	if login != nil {
		config.AuthInfos["log"], config.Contexts["log"].AuthInfo = login, "log"
	}
	config.CurrentContext = "log"
	return clientcmd.Write(*config)
}
