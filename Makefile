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
	scripts/tool.sh golangci-lint run --build-tags localstack,postgres ./...
	cd infra/cdk && ../../scripts/tool.sh golangci-lint run ./...

## vulncheck: known vulnerabilities in what is called (asks the Go vulnerability database)
vulncheck:
	scripts/tool.sh govulncheck ./...

## synth: the template of a plain example with provisioned pollers, in infra/cdk/cdk.out
synth: build
	cd infra/cdk && IDEMSK_CDK_CLUSTER_ARN=arn:aws:kafka:eu-central-1:111122223333:cluster/payments/6cc0432b-8618-4f44-bccc-e1fbd8fb7c4d-2 \
	  IDEMSK_CDK_TOPICS=payments IDEMSK_CDK_CONSUMER_GROUP=payments-ledger IDEMSK_CDK_POLLERS_MIN=2 IDEMSK_CDK_POLLERS_MAX=8 \
	  CDK_OUTDIR=cdk.out JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=$$(node -p 'process.versions.node.split(".")[0]') go run .

## deploy, diff, destroy: the stack in AWS: make deploy CLUSTER_ARN=arn:aws:kafka:… TOPIC=payments [GROUP=…] [CDK_ARGS="-c …"]
deploy diff destroy:
	@CLUSTER_ARN='$(CLUSTER_ARN)' TOPIC='$(TOPIC)' GROUP='$(GROUP)' CDK_ARGS='$(CDK_ARGS)' scripts/deploy.sh $@

## deploy-local, destroy-local: the stack in LocalStack, which stays up
deploy-local:
	scripts/deploy-local.sh deploy
destroy-local:
	scripts/deploy-local.sh destroy

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

.PHONY: help run test check build bench lint vulncheck synth deploy diff destroy deploy-local destroy-local events localstack-up localstack-down clean
