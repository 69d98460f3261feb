package main

import "context"

// pair is a synthetic API server and the exporter that watches it.
type pair struct {
	server *apiServer
	*exporter
}

func (b *bench) startPair(ctx context.Context, server []string, settings ...setting) (*pair, error) {
	s, err := b.startServer(ctx, server...)
	if err != nil {
		return nil, err
	}
	e, err := b.startExporter(ctx, s.kubeconfig, settings...)
	if err != nil {
		s.stop()
		return nil, err
	}
	return &pair{server: s, exporter: e}, nil
}

func (p *pair) close() {
	p.exporter.close()
	p.server.stop()
}

// follow makes something happen and waits until the exporter's checkpoint has it.
func (p *pair) follow(ctx context.Context, streams int, what string, n int) error {
	version, err := p.server.do(ctx, what, n)
	if err != nil {
		return err
	}
	return p.awaitPositions(ctx, streams, version)
}

// relist ends the watch by a 410 after one object in so many has changed unseen (0: none).
func (p *pair) relist(ctx context.Context, every int) error {
	if _, err := p.server.do(ctx, "touch", every); err != nil {
		return err
	}
	return p.follow(ctx, 1, "expire", 0)
}
