package servers

import (
	"fmt"
	"os"
	"path/filepath"
)

// AuditOptions let the API servers write audit events.
type AuditOptions struct {
	Level   string // such as Metadata
	Webhook string // URL that they are sent to, in batches, or empty. By http no token is sent
	Token   string // the bearer token of the webhook
	File    string // path that they are written to, in the folder of the cluster unless it is absolute, or empty
}

// flags also writes the files that they name. Batches are small and soon, and are sent again soon.
func (a *AuditOptions) flags(i *instance) (flags []string, err error) {
	policy, webhook := i.path("audit-policy.yaml"), i.path("audit-webhook.kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[
		{"level":"None","verbs":["get","list","watch"]},{"level":%q}]}`, a.Level)
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		return nil, err
	}
	flags = append(flags, "--audit-policy-file="+policy)
	switch {
	case filepath.IsAbs(a.File):
		flags = append(flags, "--audit-log-path="+a.File)
	case a.File != "":
		flags = append(flags, "--audit-log-path="+i.path(a.File))
	}
	if a.Webhook == "" {
		return flags, nil
	}
	text = fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],"users":[{"name":"u","user":{"token":%q}}]}`, a.Webhook, a.Token)
	return append(flags, "--audit-webhook-config-file="+webhook, "--audit-webhook-batch-max-wait=1s", "--audit-webhook-initial-backoff=2s"),
		os.WriteFile(webhook, []byte(text), 0o600)
}
