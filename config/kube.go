package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/homedir"

	"kubecdc/internal/fault"
	"kubecdc/internal/plain"
	"kubecdc/internal/suggest"
)

// Connection is how to reach the API server.
type Connection struct {
	REST    *rest.Config
	Cluster string // its name in records, or empty in a Pod without KUBECDC_CLUSTER, since there is no context to take it from
	Origin  string // where this comes from, for messages
}

// FromPod is the origin of a connection from within a cluster.
const FromPod = "the Pod's ServiceAccount"

// Connect finds the cluster: KUBECONFIG, else ~/.kube/config, else the Pod's ServiceAccount. It opens no
// connection. Errors are *Error, as for settings.
func (s *Source) Connect() (*Connection, error) {
	paths := s.kubeconfigs()
	if len(existing(paths)) == 0 {
		return s.inCluster(paths)
	}
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: paths, WarnIfAllMissing: false}
	raw, err := rules.Load()
	if err != nil {
		return nil, kubeError(s.Kubeconfig, "can't be read: "+plain.Redact(err.Error()), "fix the file, or name another one")
	}
	context, err := s.chooseContext(raw)
	if err != nil {
		return nil, err
	}
	client := clientcmd.NewNonInteractiveClientConfig(*raw, context, &clientcmd.ConfigOverrides{}, rules)
	restConfig, err := client.ClientConfig()
	if err != nil {
		return nil, kubeError(s.Kubeconfig, "context "+context+": "+plain.Redact(err.Error()),
			"fix the kubeconfig, or choose another context with KUBECDC_CONTEXT")
	}
	return s.connection(restConfig, context, strings.Join(existing(paths), ", ")+", context "+context), nil
}

// Contexts returns the names of the kubeconfig's contexts; none if it can't be read.
func (s *Source) Contexts() []string {
	raw, err := (&clientcmd.ClientConfigLoadingRules{Precedence: s.kubeconfigs()}).Load()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(raw.Contexts))
}

// kubeconfigs returns the files to read, as kubectl does: all that KUBECONFIG names, else the one in the home folder.
func (s *Source) kubeconfigs() []string {
	if s.Kubeconfig != "" {
		return filepath.SplitList(s.Kubeconfig)
	}
	return []string{filepath.Join(homedir.HomeDir(), ".kube", "config")}
}

func existing(paths []string) (found []string) {
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil && !info.IsDir() {
			found = append(found, p)
		}
	}
	return found
}

func (s *Source) inCluster(tried []string) (*Connection, error) {
	if s.Kubeconfig != "" {
		return nil, kubeError(s.Kubeconfig, "no such file", "name the kubeconfig of the cluster, or leave it out")
	}
	if s.Context != "" {
		return nil, &Error{[]Problem{{"KUBECDC_CONTEXT", s.Context, "there is no kubeconfig to find it in", "set KUBECONFIG"}}}
	}
	c, err := rest.InClusterConfig()
	if err != nil {
		what := "not set, " + strings.Join(tried, ", ") + " does not exist, and this is not a Pod with a ServiceAccount token"
		return nil, kubeError("", what, "set it to the kubeconfig of the cluster")
	}
	return s.connection(c, "", FromPod), nil
}

func (s *Source) chooseContext(raw *clientcmdapi.Config) (string, error) {
	names := slices.Sorted(maps.Keys(raw.Contexts))
	list := "the kubeconfig has " + strings.Join(names, ", ")
	if len(names) == 0 {
		return "", kubeError(s.Kubeconfig, "the kubeconfig has no context", "name the kubeconfig of a cluster")
	}
	if s.Context == "" && raw.CurrentContext == "" {
		return "", &Error{[]Problem{{"KUBECDC_CONTEXT", "", "not set, and the kubeconfig has no current context", "set it; " +
			list}}}
	}
	name := cmp.Or(s.Context, raw.CurrentContext)
	if raw.Contexts[name] == nil {
		return "", &Error{[]Problem{{"KUBECDC_CONTEXT", s.Context, fmt.Sprintf("no context is called %q", name),
			suggest.DidYouMean(name, names) + list}}}
	}
	return name, nil
}

func (s *Source) connection(c *rest.Config, name, origin string) *Connection {
	c.UserAgent = "kubecdc"
	return &Connection{REST: c, Cluster: cmp.Or(s.Cluster, name), Origin: origin}
}

// checkServer warns of an API server that somebody else can pose as.
func (l *loader) checkServer(c *Connection) {
	u, _, err := rest.DefaultServerUrlFor(c.REST)
	switch {
	case err != nil || Loopback(net.JoinHostPort(u.Hostname(), "0")):
	case c.REST.Insecure:
		l.warn(c.Origin + " has insecure-skip-tls-verify: anyone on the network path can pose as the API server, and gets " +
			"the token")
	case u.Scheme == "http":
		l.warn(c.Origin + " has an http URL: whoever is on the network path to the API server can read and change what it sends")
	}
}

func kubeError(value, what, fix string) error {
	return &Error{[]Problem{{Setting: "KUBECONFIG", Value: value, What: what, Fix: fix}}}
}

// IsError reports whether err is about settings: the program then ends with exit code 2.
func IsError(err error) bool { return fault.Is[*Error](err) }
