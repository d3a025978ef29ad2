# Commands for development. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GOBIN := $(or $(shell go env GOBIN 2>/dev/null),$(shell go env GOPATH 2>/dev/null)/bin)
GOLANGCI_LINT_VERSION := v2.15.0
GOVULNCHECK_VERSION := v1.9.0
GOVULNDB ?= https://vuln.go.dev
GOTESTSUM_VERSION := v1.13.0
GORELEASER_VERSION := v2.16.0

# All clones on a machine share the build cache; without it each needs minutes and gigabytes of its own.
# nomsgpack leaves out what gin has for MessagePack, which takes 40 s to compile and 3 MB of the program.
export GOFLAGS := -trimpath -tags=nomsgpack $(GOFLAGS)

# With the profile of cmd/seckill all that it imports is compiled a second time, which tests and linters do not need; nor do
# they need what debuggers do, a sixth of the time of the compiler and of the linker.
test test-% lint rest unraced chart race: export GOFLAGS += -pgo=off -gcflags=all=-dwarf=false -ldflags=-w
# As in the server, the heap grows fourfold between collections, of the tests and of the linker: a tenth of the time.
test test-% rest unraced chart race: export GOGC ?= 300

.PHONY: help run test test-all test-short test-mysql rest unraced race chart check lint vuln bench load up down containers clients compose deps fmt snapshot release

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## start on SQLite and an embedded Redis, http://127.0.0.1:8080
	go run ./cmd/seckill

# Tests state their level: see test/env. Those of make test-all contain those of make test.
test test-all test-mysql rest unraced race chart: export SECKILL_TEST_REQUIRE = 1
test-all test-mysql rest unraced chart: export SECKILL_TEST = full
# Under a name of its own, so that make -n prints it and does not run it.
again := $(MAKE) --no-print-directory --keep-going
gotestsum = $(GOBIN)/gotestsum --format testname --format-hide-empty-pkg --hide-summary skipped,output $${results:+--jsonfile $$results/$@} -- -vet=off
# What needs longest begins first. Many tests wait, so more packages run at once than there are processors; but those of the
# end-to-end tests and fault campaigns one less, because the sale with a million orders needs a processor for itself.
longest := ./test/... ./internal/lock ./internal/handler ./...
campaigns := ./test/e2e ./test/torture ./test/e2e/browser
at-once = -p $$(($$(getconf _NPROCESSORS_ONLN) + 1))

# The budget of make test is 10 s for a test and 300 s for all programs, of which several run at a time.
slowest = echo; .ci/slowest $(GOBIN)/gotestsum '$(1)' $$results/*

test: $(GOBIN)/gotestsum ## every promise, route and lane, in five minutes: on SQLite, and on MariaDB, Redis and Chromium, which are installed if missing
	@go list -export -test -deps -f '' ./... >/dev/null 2>&1 & ./.ci/install-servers core; wait
	@results=$$(mktemp -d); export results; failed=; began=$$SECONDS; \
	$(gotestsum) $(at-once) -parallel 6 -timeout 20m $(longest) || failed=1; \
	$(call slowest,10 300); \
	took=$$((SECONDS - began)); test $$took -le 210 || echo "OVER THE BUDGET of 210 s: all tests took $$took s"; \
	rm -r $$results; test -z "$$failed"

test-all: deps $(GOBIN)/gotestsum ## all tests: also MySQL, clusters, failovers, all pages, models, planted faults, fault campaigns, the race detector, and containers where an engine can be had
	@results=$$(mktemp -d); export results; failed=; \
	$(gotestsum) -p $$(getconf _NPROCESSORS_ONLN) -parallel 6 -timeout 30m $(campaigns) || failed=1; \
	$(again) rest race unraced chart || failed=1; \
	test "$(CONTAINERS)" = tried || SECKILL_TEST_REQUIRE=0 $(again) containers || failed=1; \
	$(call slowest); \
	$(GOBIN)/gotestsum --format none --hide-summary skipped --raw-command -- cat $$results/* || failed=1; \
	rm -r $$results; test -z "$$failed"

rest: $(GOBIN)/gotestsum
	@$(gotestsum) $(at-once) -parallel 8 -timeout 30m ./internal/handler $$(go list ./... | grep -vE '/test/(torture|e2e)' | grep -vxFf <(go list $(raced)))

# The packages in which much happens at once. The C code of SQLite and the interpreter of Redis scripts only compute. By
# default the race detector delays each exit of a program by a second. .ci/race-suppressions has its exceptions. Raced servers
# are many times slower, so they run alone: beside others they would answer 503 to buyers who wait too long.
raced := ./internal/{app,auth,idgen,lock,out,repo,sale,service}/... ./internal/kit ./internal/kit/batch ./internal/ops ./internal/ops/salestats
race := -race -gcflags='modernc.org/...=-d=checkptr=0' -gcflags='modernc.org/sqlite/lib=-race=false' -gcflags='github.com/yuin/gopher-lua/...=-race=false'
race: export GORACE = atexit_sleep_ms=0 suppressions='$(CURDIR)/.ci/race-suppressions'
race: $(GOBIN)/gotestsum ## the packages in which much happens at once, the core tests of HTTP, and ten end-to-end tests, with the race detector
	@failed=; \
	SECKILL_TEST=full $(gotestsum) $(race) $(at-once) -parallel 8 -timeout 30m $(raced) || failed=1; \
	SECKILL_TEST=core; results=; $(gotestsum) $(race) $(at-once) -parallel 8 -timeout 30m ./internal/handler ./test/sim || failed=1; \
	$(gotestsum) $(race) -parallel 2 -timeout 30m ./test/e2e || failed=1; \
	test -z "$$failed"

# What race has skipped in those packages, by its results: tests that compute for long.
unraced: $(GOBIN)/gotestsum
	@skipped=$$(sed -nE 's/.*"Package":"([^"]*)","Test":"(Test\w*).*not under the race detector.*/\1 \2/p' $$results/race | sort -u); \
	tests=$$(cut -d' ' -f2 <<<"$$skipped" | paste -sd'|'); \
	$(gotestsum) $(at-once) -parallel 8 -timeout 30m -run "^($$tests)$$" $$(cut -d' ' -f1 <<<"$$skipped" | uniq)

# The chart is a module of its own, so a cached result would not notice its changes.
chart: $(GOBIN)/gotestsum
	@cd deploy/check && $(gotestsum) -count=1 ./...

# make test-all runs on both servers what depends on statements or transactions; this runs all of it on MySQL, and nothing
# on SQLite.
on-mysql := ./internal/repo/... ./internal/app ./internal/ops/doctor ./internal/handler ./test/sim ./test/e2e/...
test-mysql: deps $(GOBIN)/gotestsum ## everything that uses a database server, on MySQL; SECKILL_TEST_MYSQL_DSN='root:root@tcp(127.0.0.1:3306)/' names a running one
	@SECKILL_TEST_DATABASE=mysql $(gotestsum) -parallel 8 -timeout 30m $(on-mysql)

test-short: $(GOBIN)/gotestsum ## the core tests that need no server, for every edit; the last line counts what was left out
	@$(GOBIN)/gotestsum --format pkgname --format-hide-empty-pkg --hide-summary skipped -- -short $(at-once) ./...

$(GOBIN)/gotestsum:
	@echo "installing gotestsum $(GOTESTSUM_VERSION)"; go install gotest.tools/gotestsum@$(GOTESTSUM_VERSION)

check: lint test ## linters, then the tests of make test

lint: ## golangci-lint, which also checks the directions of imports
	@test "$$($(GOBIN)/golangci-lint version --short 2>/dev/null)" = "$(GOLANGCI_LINT_VERSION:v%=%)" || { \
		echo "installing golangci-lint $(GOLANGCI_LINT_VERSION)"; \
		go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION); }
	$(GOBIN)/golangci-lint run ./...
	cd loadtest/lockbench && $(GOBIN)/golangci-lint run ./...
	cd deploy/check && $(GOBIN)/golangci-lint run ./...

fmt: ## format
	$(GOBIN)/golangci-lint fmt ./...

$(GOBIN)/goreleaser-$(GORELEASER_VERSION):
	@echo "installing goreleaser $(GORELEASER_VERSION)"; go install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION); \
		mv $(GOBIN)/goreleaser $@

snapshot: $(GOBIN)/goreleaser-$(GORELEASER_VERSION) ## check .goreleaser.yaml and build the binary of this machine as a release would, in dist
	$< check
	$< build --snapshot --single-target --clean
	./dist/seckill_*/seckill version | grep SNAPSHOT

release: $(GOBIN)/goreleaser-$(GORELEASER_VERSION) ## publish the release of the tag that is checked out: archives, SBOM, checksums, images
	$< release --clean

load: deps ## k6 against private MariaDB and Redis servers; BUYERS=2000 STOCK=200 VUS=500, reports in loadtest/reports
	go run ./loadtest/stack loadtest/run.sh

torture: deps ## a fault a second while 10,000 orders are placed; TORTURE='--orders 100000 --lane queue --seed 7'
	go run ./test/torture $(TORTURE)

up: compose .env ## MySQL, Redis and the app in containers, http://127.0.0.1:8080
	@VERSION=$${VERSION:-$$(git describe --tags --always --dirty 2>/dev/null)} docker compose up -d --build --wait || { docker compose logs --tail 20; exit 1; }
	@echo "http://$$(docker compose port app 8080)"
	@if grep -q '^SECKILL_DEMO=true' .env; then echo "A demo for this machine: any mobile number can log in, and the page fills in the code; 13800000000 is an admin. For anything else edit .env: docs/operations.md, Containers"; fi

down: ## stop the containers; the data stays (docker compose --profile '*' down -v deletes it)
	@if [ -f .env ]; then docker compose --profile "*" down; else echo "nothing to stop: there is no .env"; fi

clients: ## generate clients of the HTTP API in Go and TypeScript, and compile them; they stay in CLIENTS=folder
	./test/clients.sh $(CLIENTS)

containers: ## try the image and docker-compose.yml in containers: orders, restarts, TLS, Prometheus, failover
	@deploy/containers/run.sh

# Without its plugins, docker's messages do not say what is missing.
compose:
	@docker compose version >/dev/null 2>&1 && docker buildx version >/dev/null 2>&1 || \
		{ echo "this needs Docker 23 or newer with the plugins compose v2 and buildx: docs/operations.md, Containers"; exit 1; }

# MySQL keeps the passwords of its first start.
.env:
	@! docker volume inspect "$${COMPOSE_PROJECT_NAME:-seckill}_mysql-data" >/dev/null 2>&1 || { \
		echo "There is no .env, but the data of another one: restore that file, or delete the data first:"; \
		echo "  deploy/env.sh demo > .env && docker compose --profile '*' down -v && rm .env"; exit 1; }
	@umask 077; sh deploy/env.sh demo > $@.tmp; mv $@.tmp $@; echo "created $@ with new secrets"

deps: ## install the servers and the browser for the tests (Debian, Ubuntu)
	@./.ci/install-servers

# A machine without the database cannot know; VULN_REQUIRED=1 makes that a failure.
vuln: ## check the dependencies for known vulnerabilities, with the database of GOVULNDB: an https:// or file:// URL
	@if curl --fail --silent --show-error --max-time 30 --retry 2 --output /dev/null "$(GOVULNDB)/index/db.json"; then \
		go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) -db "$(GOVULNDB)" ./...; \
	else \
		echo "NOT CHECKED for known vulnerabilities: the database $(GOVULNDB) cannot be reached. GOVULNDB can name another one."; \
		test -z "$${VULN_REQUIRED:-}"; \
	fi

bench: deps ## compare every lane with a bare HTTP server; writes loadtest/RESULTS.md, takes a quarter of an hour
	go run ./loadtest/bench $(BENCH)
