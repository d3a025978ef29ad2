# The commands of a working day. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GOBIN := $(or $(shell go env GOBIN),$(shell go env GOPATH)/bin)
GOLANGCI_LINT_VERSION := v2.15.0
GOVULNCHECK_VERSION := v1.9.0

BENCHTIME ?= 3s

.PHONY: help run test check lint vuln bench microbench load up down deps fmt

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## start on SQLite and an embedded Redis, http://127.0.0.1:8080
	go run ./cmd/seckill

test: deps ## all tests, on the embedded default and on real MariaDB, Redis and Chromium, which are installed if missing
	SECKILL_TEST_REQUIRE=1 go test -race -parallel 4 -timeout 30m ./... # most tests wait for servers, not for processors

check: lint test ## what CI runs: linters, then all tests

lint: ## golangci-lint, which also holds the import arrows
	@test "$$($(GOBIN)/golangci-lint version --short 2>/dev/null)" = "$(GOLANGCI_LINT_VERSION:v%=%)" || { \
		echo "installing golangci-lint $(GOLANGCI_LINT_VERSION)"; \
		go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION); }
	$(GOBIN)/golangci-lint run ./...
	cd loadtest/lockbench && $(GOBIN)/golangci-lint run ./...

fmt: ## format
	$(GOBIN)/golangci-lint fmt ./...

load: deps ## k6 against MariaDB and Redis of its own; BUYERS=2000 STOCK=200 VUS=500, reports in loadtest/reports
	go run ./loadtest/stack loadtest/run.sh

up: .env ## MySQL, Redis and the app in containers, http://127.0.0.1:8080
	docker compose up -d --build --wait

down: ## stop the containers; the data stays (docker compose down -v deletes it)
	@if [ -f .env ]; then docker compose --profile observability down; else echo "nothing is up: there is no .env"; fi

.env:
	@umask 077; sh deploy/env.sh > $@.tmp; mv $@.tmp $@; echo "wrote $@ with new secrets"

deps: ## install the servers and the browser that the tests start (Debian, Ubuntu)
	@./.ci/install-servers

vuln: ## known vulnerabilities, if their database can be reached
	@if curl -fsS -o /dev/null --max-time 10 https://vuln.go.dev/index/db.json 2>/dev/null; then \
		go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./...; \
	else echo "the vulnerability database cannot be reached: not checked"; fi

bench: deps ## durable orders/s of every lane as ratios to a bare server; writes loadtest/RESULTS.md, half an hour
	go run ./loadtest/bench $(BENCH)

microbench: deps ## Go benchmarks: an order in one durable transaction, a lock cycle, against raw Redis commands
	SECKILL_TEST_REQUIRE=1 go test -run '^$$' -bench . -benchtime $(BENCHTIME) ./internal/...
