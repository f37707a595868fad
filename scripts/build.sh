#!/usr/bin/env bash
# Builds the tool (bin/idemsk) and the functions for Lambda's provided.al2023 runtime: dist/handler-$ARCH/bootstrap with DynamoDB
# alone, dist/handler-$ARCH-{postgres,redis}/bootstrap, which are larger by a third and carry their own client besides, and the
# relay of the outbox, dist/relay-$ARCH/bootstrap. lambda.norpc leaves out what only the go1.x runtime needed.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v go >/dev/null || { echo "build: Go 1.26 or newer is needed: install it from https://go.dev/dl" >&2; exit 1; }

version=$(git describe --tags --always --dirty 2>/dev/null || echo unknown)
go build -trimpath -ldflags "-X main.version=$version" -o bin/idemsk ./cmd/idemsk
for arch in ${ARCHS:-amd64 arm64}; do
  for store in '' postgres redis; do
    CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -tags "lambda.norpc${store:+,$store}" -ldflags "-s -w" \
      -o "dist/handler-$arch${store:+-$store}/bootstrap" ./lambda/handler
  done
  CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -tags lambda.norpc -ldflags "-s -w" \
    -o "dist/relay-$arch/bootstrap" ./lambda/relay
done
