package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"

	"kubecdc/bench/synthetic"
)

// serve is the synthetic API server as a process. It writes a kubeconfig and then says that it is ready.
func serve(args []string) error {
	var options synthetic.Options
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	flags.IntVar(&options.Objects, "objects", 1000, "objects in each collection")
	flags.IntVar(&options.Rewrites, "rewrites", 0, "of a hundred updates, so many change three tenths of the object")
	flags.IntVar(&options.Resources, "resources", 1, "collections")
	flags.DurationVar(&options.Bookmarks, "bookmarks", time.Minute, "time between two bookmarks of a watch")
	kubeconfig := flags.String("kubeconfig", "", "file to write")
	secure := flags.Bool("tls", false, "HTTP/2 over TLS, as API servers speak it; else HTTP/1.1 in the clear")
	openAPI := flags.String("openapi", "", "file with the OpenAPI v3 document of api/v1")
	_ = flags.Parse(args)
	if *openAPI != "" {
		var err error
		if options.OpenAPI, err = os.ReadFile(*openAPI); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: synthetic.New(options)}
	url, ca := "http://"+listener.Addr().String(), ""
	if *secure {
		certificate, err := selfSigned()
		if err != nil {
			return err
		}
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}}
		url, ca = "https://"+listener.Addr().String(), "insecure-skip-tls-verify: true"
	}
	if err := os.WriteFile(*kubeconfig, fmt.Appendf(nil, kubeconfigText, url, ca), 0o600); err != nil {
		return err
	}
	fmt.Println("ready")
	if *secure {
		return server.ServeTLS(listener, "", "")
	}
	return server.Serve(listener)
}

const kubeconfigText = `apiVersion: v1
kind: Config
current-context: bench
clusters: [{name: bench, cluster: {server: "%s", %s}}]
users: [{name: bench, user: {}}]
contexts: [{name: bench, context: {cluster: bench, user: bench}}]
`

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}))
}
