package main

import (
	"bufio"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// floor reads the same bytes and does nothing with them: no program that watches can cost less. It lists the
// collection in pages, says "listed", watches, and says "done" after so many events.
func floor(args []string) error {
	flags := flag.NewFlagSet("floor", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "of the server")
	version := flags.String("version", "", "resourceVersion to watch from")
	events := flags.Int("events", 0, "to read; 0: list only")
	_ = flags.Parse(args)
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer func() { fmt.Println("done"); time.Sleep(time.Minute) }() // the parent looks, then ends this process
	if *events == 0 {
		return readBytes(client, config.Host+"/api/v1/pods")
	}
	response, err := client.Get(config.Host + "/api/v1/pods?watch=1&resourceVersion=" + *version)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	fmt.Println("listed")
	lines := bufio.NewReaderSize(response.Body, 64<<10)
	for range *events {
		if _, err := lines.ReadSlice('\n'); err != nil {
			return err
		}
	}
	return nil
}

func readBytes(client *http.Client, url string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, struct{ io.Reader }{response.Body})
	return err
}
