# make alone lists the targets.
.DEFAULT_GOAL := help

GO      ?= go
BIN     := bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -s -w -X main.version=$(VERSION)
# The exporter is a static binary. Tests build it the same way, so that nothing is compiled twice.
export CGO_ENABLED := 0
# Two packages at a time: each starts its own servers, and mostly waits. The longest begins first.
TEST    := $(GO) test -count=1 -p 2 -timeout 40m
ALL     := ./test/e2e ./...

.PHONY: help demo test unit bare race chaos soak prove kine bench compat lint build docs image servers clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## the whole story on this machine with real servers: a minute, the first time ten (KEEP=1 leaves it running)
	$(GO) run ./test/demo

test: servers ## all tests, on real servers (PKG=./config for some, RUN=Name for one)
	$(TEST) $(if $(RUN),-run '$(RUN)') $(or $(PKG),$(ALL))

unit: ## the tests that need no server: a minute
	$(GO) test -short $$($(GO) list ./... | grep -v '^kubecdc/test/')

bare: ## demo and tests in a Debian that has only Go, make and git (as root; DIR=place, PKG=./config, ONLY=demo)
	@DIR='$(DIR)' PKG='$(PKG)' RUN='$(RUN)' ONLY='$(ONLY)' SUITE='$(SUITE)' MIRROR='$(MIRROR)' KEEP='$(KEEP)' GO='$(GO)' test/bare/run

race: export CGO_ENABLED := 1
race: servers ## all tests under the race detector, except the one of memory, most of which the detector takes
	$(TEST) -race -skip TestMemoryOfLargeCollections $(if $(RUN),-run '$(RUN)') $(or $(PKG),$(ALL))

chaos: servers ## a thousand faults at random moments (FAULTS=100 for fewer, KUBECDC_CHAOS_SEED=… to repeat a run)
	KUBECDC_CHAOS_FAULTS=$(or $(FAULTS),1000) $(GO) test -count=1 -v -timeout 0 -run Chaos ./test/e2e

soak: servers ## random gaps, compared with etcd's history (HISTORIES=100 for fewer, KUBECDC_TEST_SEED=… to repeat a run)
	KUBECDC_TEST_HISTORIES=$(or $(HISTORIES),10000) $(GO) test -count=1 -v -timeout 0 -run Random ./source/reflector

prove: servers ## proofs while objects change, for an hour (PROOFS=1000 for fewer)
	KUBECDC_TEST_PROOFS=$(or $(PROOFS),10000) $(GO) test -count=1 -v -timeout 0 -run ProofsWhile ./source/reflector

kine: servers ## recovery with kine as the store, as in k3s, on Postgres and on SQLite (the first time builds kine: minutes)
	cd test/kine && GOWORK=off $(GO) build -trimpath -ldflags '-s -w' -o $(CURDIR)/$(BIN)/kine .
	KUBECDC_TEST_KINE=$(CURDIR)/$(BIN)/kine $(GO) test -count=1 -v -run OnKine ./source/reflector

bench: servers ## the cost of an event, beside other programs: docs/performance.md (ONLY=live for some rows, PEERS=1 for those in Rust too)
	$(GO) run ./bench $(if $(ONLY),-only '$(ONLY)') $(if $(PEERS),-peers) $(if $(TIMES),-times $(TIMES)) $(if $(PROFILE),-profile '$(PROFILE)')

compat: servers ## other people's consumers read the topics: docs/compatibility.md (ONLY=flink,kcat for some; the first time installs them)
	$(GO) run ./test/compat $(if $(ONLY),-only '$(ONLY)')

lint: ## gofmt and the linters of .golangci.yml (the first time builds golangci-lint: minutes)
	@unformatted=$$(gofmt -l $$(git ls-files "*.go")); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	$(GO) tool -modfile=tools/go.mod golangci-lint run ./...

build: ## bin/exporter, a static binary
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/exporter ./cmd/exporter

docs: ## write docs/settings.md from config/config.go
	$(GO) test ./config -run TestSettingsPageIsUpToDate -count=1 -args -update

image: ## a container image, with docker or podman (IMAGE=name:tag)
	$(or $(DOCKER),docker) build -f deploy/Dockerfile --build-arg VERSION=$(VERSION) -t $(or $(IMAGE),kubecdc/exporter:$(VERSION)) .

servers: ## install the servers that tests and demo use into .servers/ (the first time: minutes)
	$(GO) run ./test/servers/cmd/servers install

clean: ## remove everything that make made, servers and their data included
	rm -rf $(BIN) "$$(readlink .servers/elsewhere)" .servers
