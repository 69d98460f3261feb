package apiclient_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kubecdc/source/apiclient"
	"kubecdc/test/servers"
)

// A request ends with its context, though the kubeconfig's credential plugin hangs: client-go would wait for the plugin.
func TestARequestEndsThoughThePluginHangs(t *testing.T) {
	t.Parallel()
	silent := filepath.Join(t.TempDir(), "silent") // opening it for reading waits for a writer
	must(t, syscall.Mkfifo(silent, 0o600))
	c, err := apiclient.New(&rest.Config{Host: "https://127.0.0.1:1", ExecProvider: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: "cat", Args: []string{silent}, InteractiveMode: clientcmdapi.NeverExecInteractiveMode}})
	must(t, err)
	t.Cleanup(func() { // ends the plugin
		if writer, err := os.OpenFile(silent, os.O_RDWR, 0); err == nil {
			_ = writer.Close()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Read(ctx, "/version")
		ended <- err
	}()
	cancel()
	late, stop := servers.Patient(t.Context())
	defer stop()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the request ends with %v", err)
		}
	case <-late.Done():
		t.Error("the request waits for the plugin")
	}
}
