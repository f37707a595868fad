.DEFAULT_GOAL := help
SHELL := /usr/bin/env bash

## help: what can be made
help:
	@sed -n 's/^## //p' Makefile

# What runs on this machine, and nothing else.
BUILD = scripts/build.sh run $(filter postgres redis,$(STORE)) $(filter process,$(HOST))
## run: see it work: the sample events, then 10,000 payments through a broker, the event source, the real function and its tables,
##      with redelivered batches, two at once, and killed processes; then the same without idemsk. SEED=7 repeats the payments,
##      and the faults injected into a batch; which payments make a batch depends on timing too.
##      (LEDGER=plain: bookings do not commit with their completions, and a kill can repeat one: it is named.
##      HOST=process: three consumer processes in the place of the event source and the function; one is killed or paused at times.
##      STORE=postgres, STORE=redis: on a server of its own; STORE=localstack: on LocalStack's DynamoDB, which answers some 200
##      requests a second: 2,000 payments. TRACES=DIR: what the store did to keys, for scripts/trace.sh DIR)
STORE ?= fake
HOST ?= lambda
RECORDS ?= $(if $(filter localstack,$(STORE)),2000,10000)
FAULTS ?= $(if $(filter process,$(HOST)),--producer-duplicates 0.3 $(if $(filter redis,$(STORE)),,--concurrent-duplicates 0.05 --kill 0.08),\
  --duplicate 0.3 --concurrent-duplicates 0.05 $(if $(filter redis,$(STORE)),,--kill 0.04))
LOCAL = $(if $(filter fake,$(STORE)),,scripts/with-$(STORE).sh) bin/idemsk local \
  --store $(if $(filter localstack,$(STORE)),http://127.0.0.1:$${LOCALSTACK_PORT:-4566},$(STORE)) \
  $(if $(filter process,$(HOST)),--host process --processes 3,--function-response-types ReportBatchItemFailures) --produce $(RECORDS) $(if $(SEED),--seed $(SEED)) \
  $(if $(LEDGER),--env IDEMSK_LEDGER=$(LEDGER)) $(if $(TRACES),--traces $(TRACES))
run: export TMPDIR = $(CURDIR)/.cache/tmp
run:
	@mkdir -p $(TMPDIR)
	@$(BUILD)
	@echo "The sample events in events/:"
	@set -o pipefail; bin/idemsk local --events events --prove --fail-on-dead-letters=false --function-response-types ReportBatchItemFailures --env IDEMSK_LEASE=500ms \
	  --log dist/events.log 2>dist/events.txt | tail -n 2 || { cat dist/events.txt; exit 1; }
	@echo
	@$(LOCAL) --until-drained --prove --compare $(if $(filter plain,$(LEDGER)),--env IDEMSK_BATCHING=off) $(FAULTS)

## dev: the same parts without faults. It keeps running, with a page: produce to its broker, whose address it prints
dev:
	@$(BUILD)
	@$(LOCAL)

## test-go: the tests that need Go alone, in all modules, and what that leaves out
test-go:
	scripts/test-go.sh

## test: the tests that a change needs: unit and property tests, the rules of the stores on their real servers, and idemsk local with a
##      function and with processes
test:
	scripts/test.sh

## test-rest: what make test leaves out: the documents' commands, LocalStack, Apache Kafka, other languages, the browser, kills of servers, traces, the
##      construct, the simulation's seeds. LocalStack must be down: it is started, and stopped again
test-rest:
	scripts/test-rest.sh

## test-all: make test and make test-rest, which checks the traces of both
test-all: export IDEMSK_TRACE_DIR = $(CURDIR)/.cache/traces
test-all:
	rm -rf $(IDEMSK_TRACE_DIR)
	mkdir -p $(IDEMSK_TRACE_DIR)
	scripts/test.sh -count=1
	scripts/test-rest.sh

## test-long: the tests of killed processes, outages and random histories at their full size, of which make test-rest has a part
test-long:
	IDEMSK_TEST_LONG=1 go test -tags servers,rest -count=1 -timeout 30m -run 'TestBookingsAreExact|TestBalancesAreExact|TestEachCredit|TestAgreesWithMemory|DynamoDBLocal' \
	  ./lambda/handler/internal/ledger ./idem/pgstore ./idem/dynamostore ./internal/fake/dynamofake ./test/outbox
	IDEMSK_TEST_LONG=1 go test -tags rest -count=1 -timeout 60m -run TestEachPaymentIsBookedWhateverIsKilled ./cmd/idemsk-consumer
	IDEMSK_TEST_LONG=1 scripts/test-local.sh -timeout 60m

## test-local: the end-to-end tests of idemsk local alone: a real Kafka, DynamoDB Local, LocalStack, Python and Node.js
test-local:
	scripts/test-local.sh

## torture: consumer processes on a real Kafka, killed, paused, ended and started at random, while the broker is restarted: 100,000
##      records and 500 events on each store, in up to two hours on a busy machine. SEED=7 repeats the events; their effect depends on timing too
torture: RECORDS = 100000
torture: EVENTS = 500
torture:
	TORTURE_RECORDS=$(RECORDS) TORTURE_EVENTS=$(EVENTS) TORTURE_SEED=$(SEED) \
	  go test -tags rest -count=1 -timeout 3h -v ./test/torture

## linear: the histories of concurrent clients of each store, on its real server and over networks that fail (internal/test/linear): OPS=1000000 operations,
##      of which make test-rest has a part. SEED=7 repeats what each client does; how their operations interleave depends on timing
OPS ?= 1000000
linear:
	LINEAR_OPS=$(OPS) LINEAR_SEED=$(SEED) go test -tags rest -count=1 -timeout 3h -v ./internal/test/linear

## simulate: functions and consumer processes in virtual time: each seed draws the whole configuration, what producers and operators do, and faults.
##      Prints the steps (requests at the services) a second, and how many pairs of settings were run together. SEEDS=7 or SEEDS=1-8000; 0-499 have
##      each pair. A seed that fails is shrunk, and the command that repeats it exactly is printed: with CONFIG='NAME=VALUE,…', the settings that are not
##      the first ones of dimensions_test.go. With ORDERS=1-100 each seed is run in each of these orders of goroutines, which are repeated exactly and
##      take some ten times longer; with ORDERS=none a seed that fails is shrunk as it happens
SEEDS ?= 1-8000
simulate:
	SIMULATE_SEEDS=$(SEEDS) SIMULATE_ORDERS=$(ORDERS) SIMULATE_FIRST=$(FIRST) SIMULATE_ONLY=$(ONLY) $(if $(filter undefined,$(origin CONFIG)),,SIMULATE_CONFIG='$(CONFIG)') \
	  go test -tags synctests -count=1 -timeout 0 -v -run '^TestSimulation$$' ./test/simulation

## soak: the example function with redelivered batches and lost replies of its store: is each payment booked once, does the process grow?
##      Reports each 30 s. RECORDS=10000000 takes an hour
soak:
	SOAK_RECORDS=$(RECORDS) go test -tags rest -count=1 -timeout 48h -v -run 'TestSoak$$' ./lambda/handler/internal/soak

## trace: record what the stores do on their real servers, and check it against the model of the rules (docs/spec)
trace:
	scripts/trace.sh

## mutate: change the rules, the conditions and the items of the stores one operator at a time; a change that no test detects needs a
##      reason (internal/test/mutants). MUTATE=idem/store changes the files whose name contains it
mutate:
	go test -tags mutants -count=1 -timeout 4h -v -run 'TestNoMutantSurvives$(if $(MUTATE),/$(MUTATE))' ./internal/test/mutants | grep --line-buffered -vE '^ *(=== |--- PASS)'; exit $${PIPESTATUS[0]}

## prove: every method of docs/proof.md, one after another, sized for an hour on 2 idle cores, and a table of the results; LocalStack must be down.
##      SEED=7 repeats the seeds
prove:
	SEED=$(SEED) scripts/prove.sh

## fuzz: every fuzz test, one after another, for TIME each (20s); go test runs their seeds and what they found before
fuzz:
	scripts/fuzz.sh $(TIME)

## test-docs: the commands of the documents alone, as they are written; LocalStack must be down
test-docs:
	go test -tags docs -count=1 -timeout 30m ./internal/test/doctest

## test-stores: the tests on PostgreSQL and Redis alone
test-stores:
	scripts/postgres.sh install && scripts/redis.sh install
	go test -race -tags servers ./idem/pgstore ./idem/redisstore ./app/... ./internal/demo/pgledger ./internal/demo/redisledger ./cmd/idemsk/internal/local/testenv

## check: lint, vulnerability check and tests
check: lint vulncheck test

## build: bin/idemsk, and the functions for Lambda: dist/handler-{amd64,arm64}[-postgres|-redis]/bootstrap, dist/relay-…, dist/maintenance-…, and the layers, dist/idemsk-layer-…zip
build:
	scripts/build.sh

## bench: the benchmarks, with allocations
bench:
	scripts/bench.sh

## bench-peers: idemsk side by side with what people use today; writes docs/performance.md, then the loops by hand on PostgreSQL and Redis,
##      slow handlers and latencies (half an hour, a quiet machine)
bench-peers:
	scripts/bench-peers.sh

## bench-stores: the stores side by side, into docs/stores.md
bench-stores:
	scripts/bench-stores.sh

# The packages of all modules: ./... has those of the root's alone.
MODULES = $$(go list -m -f '{{.Dir}}/...')
## lint: golangci-lint with .golangci.yaml, and that what make run builds compiles for macOS
lint:
	GOOS=darwin GOARCH=arm64 go vet ./cmd/idemsk ./lambda/handler
	scripts/tool.sh golangci-lint run --build-tags servers,rest,docs,mutants $(MODULES)

## api: what changed in the Go API since the last release, and which version that takes
api:
	scripts/api.sh $(VERSION)

## lint-workflows: actionlint and zizmor, and the schemas of what else is in .github
lint-workflows:
	scripts/workflows.sh

## vulncheck: known vulnerabilities in what is called (asks the Go vulnerability database)
vulncheck:
	scripts/tool.sh govulncheck $(MODULES)

## deploy, diff, destroy: the stack in AWS: make deploy CODE=PATH CLUSTER_ARN=arn:aws:kafka:… TOPIC=payments [GROUP=…] [CDK_ARGS="-c …"].
##      CODE is the folder or the .zip file of your own function; EXAMPLE=ledger in its place deploys the demonstration
## synth: the template of that stack, in infra/cdk/cdk.out; without CLUSTER_ARN and TOPIC of a cluster that does not exist
deploy diff destroy synth:
	@CODE='$(CODE)' EXAMPLE='$(EXAMPLE)' CLUSTER_ARN='$(CLUSTER_ARN)' TOPIC='$(TOPIC)' GROUP='$(GROUP)' CDK_ARGS='$(CDK_ARGS)' scripts/deploy.sh $@

## deploy-local, destroy-local: the stack in LocalStack, which stays up
deploy-local:
	scripts/deploy-local.sh deploy
destroy-local:
	scripts/deploy-local.sh destroy

## aws-check: the example in your AWS account, with a cluster of its own and killed invocations: it names the price and asks, compares
##            the ledger, prints a report for an issue, and destroys all of it. LOCAL=1: on LocalStack, as far as it goes. RECORDS, SEED,
##            POLLERS=on-demand; YES=1 does not ask
aws-check:
	@LOCAL='$(LOCAL)' YES='$(YES)' POLLERS='$(POLLERS)' RECORDS='$(if $(filter command line environment,$(origin RECORDS)),$(RECORDS))' SEED='$(SEED)' scripts/aws-check.sh

## localstack-up, localstack-down: LocalStack without Docker, on 127.0.0.1:4566
localstack-up:
	localstack/localstack.sh up
localstack-down:
	localstack/localstack.sh down

## release: what a release consists of, in dist/release, from the checked-out commit: make release VERSION=v1.2.3 (CONTRIBUTING.md)
release:
	scripts/release.sh $(VERSION)

## site: the documents as a site, in dist/site
site:
	scripts/site.sh

## clean: remove what was built (.cache stays)
clean:
	rm -rf bin dist

.PHONY: site api lint-workflows release help run dev test test-rest test-all test-go test-long test-local torture linear simulate soak mutate fuzz prove trace test-docs test-stores check build bench bench-peers bench-stores lint vulncheck synth deploy diff destroy deploy-local destroy-local aws-check localstack-up localstack-down clean
