.DEFAULT_GOAL := help
SHELL := /usr/bin/env bash

## help: what can be made
help:
	@sed -n 's/^## //p' Makefile

## run: see it work: the real function, 10,000 payments, redelivered batches, killed processes
##      (STORE=localstack: on LocalStack, which answers some 200 requests a second: 2,000 payments)
STORE ?= fake
RECORDS ?= $(if $(filter localstack,$(STORE)),2000,10000)
run: build
	@$(if $(filter localstack,$(STORE)),scripts/with-localstack.sh) \
	  bin/idemsk replay --store $(STORE) --records $(RECORDS) --batch-size 100 --compare events/*.json

## test: run every test; starts LocalStack if need be, and stops it again
test:
	scripts/test.sh

## check: lint, vulnerability check and tests
check: lint vulncheck test

## build: bin/idemsk and dist/handler-{amd64,arm64}/bootstrap
build:
	scripts/build.sh

## bench: the benchmarks, with allocations
bench:
	scripts/bench.sh

## lint: golangci-lint with .golangci.yaml
lint:
	scripts/tool.sh golangci-lint run --build-tags localstack ./...

## vulncheck: known vulnerabilities in what is called (asks the Go vulnerability database)
vulncheck:
	scripts/tool.sh govulncheck ./...

## events: write the sample events anew
events:
	go run ./scripts/gen-events

## localstack-up, localstack-down: LocalStack without Docker, on 127.0.0.1:4566
localstack-up:
	localstack/localstack.sh up
localstack-down:
	localstack/localstack.sh down

## clean: remove what was built (.cache stays)
clean:
	rm -rf bin dist

.PHONY: help run test check build bench lint vulncheck events localstack-up localstack-down clean
