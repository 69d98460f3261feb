package main

import (
	"context"
	"crypto/tls"
	"net/http"
	"strconv"
	"time"
)

// insecure trusts the server that was just started.
var insecure = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

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
	return b.watchPeer(ctx, p, server, events)
}

// floorList is a program that reads the whole collection and does nothing.
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
	return b.listPeer(ctx, p, objects)
}

// informerLive is the program that people write by hand: see bench/informer.
func informerLive(ctx context.Context, b *bench) ([]result, error) {
	server, err := b.startServer(ctx, "-objects", strconv.Itoa(liveObjects))
	if err != nil {
		return nil, err
	}
	defer server.stop()
	events := b.scaled(liveEvents) / 5
	p, err := b.startInformer(server, liveObjects, events+warmUp)
	if err != nil {
		return nil, err
	}
	return b.watchPeer(ctx, p, server, events)
}

func informerList(ctx context.Context, b *bench) ([]result, error) {
	objects := b.scaled(listObjects)
	server, err := b.startServer(ctx, "-objects", strconv.Itoa(objects))
	if err != nil {
		return nil, err
	}
	defer server.stop()
	p, err := b.startInformer(server, objects, 0)
	if err != nil {
		return nil, err
	}
	return b.listPeer(ctx, p, objects)
}

func (b *bench) startInformer(server *apiServer, objects, events int) (*process, error) {
	b.runs++
	return start(b.file("informer.log"), nil, b.file("informer"), "-kubeconfig", server.kubeconfig, "-broker", b.kafka.Brokers[0],
		"-topic", "informer"+strconv.Itoa(b.runs), "-objects", strconv.Itoa(objects), "-events", strconv.Itoa(events))
}

// watchPeer measures a program that says "listed", takes events, and says "done".
func (b *bench) watchPeer(ctx context.Context, p *process, server *apiServer, events int) ([]result, error) {
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

// listPeer measures a program that lists and says "done".
func (b *bench) listPeer(ctx context.Context, p *process, objects int) ([]result, error) {
	defer p.stop()
	started := time.Now()
	if err := p.await(ctx, "done"); err != nil {
		return nil, err
	}
	u, err := p.usage()
	return []result{{name: b.row, events: objects, unit: "object", cpu: u.cpu, wall: time.Since(started), peak: u.peak}}, err
}
