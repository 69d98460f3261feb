package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
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

// floorLive is a program that reads the watch and does nothing.
func floorLive(ctx context.Context, b *bench) ([]result, error) {
	server, err := b.startServer(ctx, "-objects", strconv.Itoa(liveObjects))
	if err != nil {
		return nil, err
	}
	defer server.stop()
	version, err := server.do(ctx, "send", 0)
	if err != nil {
		return nil, err
	}
	events := 2 * b.scaled(liveEvents)
	p, err := start(b.file("floor.log"), nil, "/proc/self/exe", "floor", "-kubeconfig", server.kubeconfig,
		"-version", strconv.FormatUint(version, 10), "-events", strconv.Itoa(events+warmUp))
	if err != nil {
		return nil, err
	}
	return b.watchFloor(ctx, p, server, events)
}

// floorList is a program that reads the complete collection and does nothing.
func floorList(ctx context.Context, b *bench) ([]result, error) {
	objects := b.scaled(listObjects)
	server, err := b.startServer(ctx, "-objects", strconv.Itoa(objects))
	if err != nil {
		return nil, err
	}
	defer server.stop()
	p, err := start(b.file("floor.log"), nil, "/proc/self/exe", "floor", "-kubeconfig", server.kubeconfig)
	if err != nil {
		return nil, err
	}
	return b.listFloor(ctx, p, objects)
}

// watchFloor measures the floor, which says "listed", takes events, and says "done".
func (b *bench) watchFloor(ctx context.Context, p *process, server *apiServer, events int) ([]result, error) {
	defer p.stop()
	if err := p.await(ctx, "listed"); err != nil {
		return nil, err
	}
	if _, err := server.do(ctx, "send", warmUp); err != nil {
		return nil, err
	}
	time.Sleep(3 * time.Second) // it has warmed up
	first, err := p.usage()
	if err != nil {
		return nil, err
	}
	started := time.Now()
	if _, err := server.do(ctx, "send", events); err != nil {
		return nil, err
	}
	if err := p.await(ctx, "done"); err != nil {
		return nil, err
	}
	wall := time.Since(started)
	last, err := p.usage()
	return []result{{name: b.row, events: events, unit: "event", cpu: last.cpu - first.cpu, wall: wall, peak: last.peak}}, err
}

// listFloor measures the floor, which lists and says "done".
func (b *bench) listFloor(ctx context.Context, p *process, objects int) ([]result, error) {
	defer p.stop()
	started := time.Now()
	if err := p.await(ctx, "done"); err != nil {
		return nil, err
	}
	u, err := p.usage()
	return []result{{name: b.row, events: objects, unit: "object", cpu: u.cpu, wall: time.Since(started), peak: u.peak}}, err
}
