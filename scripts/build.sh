#!/usr/bin/env bash
# build.sh             builds the tool (bin/idemsk) and all functions for Lambda's provided.al2023 runtime: dist/handler-$ARCH/bootstrap
#                      with DynamoDB only, dist/handler-$ARCH-{postgres,redis}/bootstrap, which also contain the client of that store
#                      and are larger by a third, the relay of the outbox, dist/relay-$ARCH/bootstrap, the maintenance of the keys,
#                      dist/maintenance-$ARCH/bootstrap, and the layers for functions in other languages, dist/idemsk-layer-{arm64,x86_64}[-postgres|-redis|-schemas].zip;
#                      the last one has all stores and decodes Avro and Protobuf. On a machine that is not
#                      Linux also the function for the machine itself, which idemsk local runs: dist/handler-$OS-$ARCH/bootstrap.
#                      The example as a consumer process, with all stores, is dist/ledger-consumer-$ARCH, and the one for handlers in
#                      other languages dist/idemsk-consumer-$ARCH.
# build.sh layer       builds only the layers with DynamoDB.
# build.sh functions   builds all but the tool. The time of the files in the layers is SOURCE_DATE_EPOCH, or always the same.
# build.sh only NAME…  builds these in dist: handler-arm64-redis, relay-arm64, maintenance-amd64, idemsk-layer-x86_64.zip and so on.
# build.sh consumer    builds the consumer process for handlers in other languages for this machine, bin/idemsk-consumer.
# build.sh cdk [NAME]  builds the CDK app, .cache/cdk/app, or that in its folder NAME, .cache/cdk/app-NAME.
# build.sh run [STORE] [process] builds only what make run starts on this machine: the tool, its function, also with that store (postgres,
#                      redis), and the consumer process if that is wanted.
#
# lambda.norpc omits code that only the go1.x runtime needed.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v go >/dev/null || { echo "build: Go 1.26 or newer is needed: install it from https://go.dev/dl" >&2; exit 1; }

# compile OUTPUT PACKAGE [FLAGS…] builds a program and prints its progress. Without a build cache Go prints nothing for minutes, so the script counts packages.
compile() {
  local output=$1 package=$2 line n=0
  shift 2
  echo "build: $output" >&2
  go build -v -trimpath ${1+"$@"} -o "$output" "$package" 2>&1 | while IFS= read -r line; do
    case $line in
      *[[:space:]]*) printf '%s\n' "$line" ;; # a message
      *) if ((++n % 50 == 0)); then echo "build: $n packages compiled"; fi ;;
    esac
  done >&2
}

# lambda_function OUTPUT PACKAGE OS ARCH
lambda_function() {
  CGO_ENABLED=0 GOOS=$3 GOARCH=$4 compile "$1/bootstrap" "$2" -tags lambda.norpc -ldflags '-s -w'
}

# layer_zip ARCH [STORE | schemas]: a layer for Lambda, which names the architecture otherwise.
layer_zip() {
  local files=dist/layer-$1${2:+-$2} zip name=$1 package=./lambda/layer${2:+/$2}
  [[ $1 != amd64 ]] || name=x86_64
  zip=idemsk-layer-$name${2:+-$2}.zip
  [[ ${2:-} != schemas ]] || package=./cmd/idemsk-layer
  CGO_ENABLED=0 GOOS=linux GOARCH=$1 compile "$files/bin/idemsk-layer" $package -tags lambda.norpc -ldflags '-s -w'
  cp lambda/layer/idemsk "$files/idemsk"
  command -v zip >/dev/null || { echo "build: zip is needed (Debian: zip)" >&2; exit 1; }
  # A layer with other times would be another version of the layer, and of each function behind it.
  TZ=UTC0 touch -d "@${SOURCE_DATE_EPOCH:-1577836800}" "$files/idemsk" "$files/bin/idemsk-layer"
  rm -f "dist/$$-$zip"
  (cd "$files" && TZ=UTC0 zip -q -X -D -9 "../$$-$zip" idemsk bin/idemsk-layer)
  mv -f "dist/$$-$zip" "dist/$zip" # at once, for another build at the same time
}

# own [STORE]: the example's function, for this machine.
own() {
  local os arch name
  os=$(go env GOOS) arch=$(go env GOARCH)
  name=$arch # as Lambda has it
  [[ $os == linux ]] || name=$os-$arch
  lambda_function "dist/handler-$name${1:+-$1}" "./lambda/handler${1:+/$1}" "$os" "$arch"
}

# own_consumer: the example's consumer process for this machine, named as the function is.
own_consumer() {
  local name
  name=$(go env GOARCH)
  [[ $(go env GOOS) == linux ]] || name=$(go env GOOS)-$name
  CGO_ENABLED=0 compile "dist/ledger-consumer-$name" ./lambda/handler/process -ldflags '-s -w'
}

# idemsk_consumer OUTPUT OS ARCH
idemsk_consumer() {
  CGO_ENABLED=0 GOOS=$2 GOARCH=$3 compile "$1" ./cmd/idemsk-consumer -ldflags "-s -w -X main.version=$version"
}

# only NAME: what has this name in dist.
only() {
  local kind arch store
  IFS=- read -r kind arch store <<<"$1"
  case $1 in
    handler-*) lambda_function "dist/$1" "./lambda/handler${store:+/$store}" linux "$arch" ;;
    aws-check-producer-*) lambda_function "dist/$1" ./cmd/idemsk/internal/awscheck/producer linux "${1##*-}" ;;
    idemsk-consumer-*) idemsk_consumer "dist/$1" linux "${1##*-}" ;;
    relay-* | maintenance-*) lambda_function "dist/$1" "./lambda/$kind" linux "$arch" ;;
    idemsk-layer-*.zip)
      IFS=- read -r _ _ arch store <<<"${1%.zip}"
      [[ $arch != x86_64 ]] || arch=amd64
      layer_zip "$arch" "$store"
      ;;
    *)
      echo "build: there is no program $1 in dist" >&2
      exit 2
      ;;
  esac
}

everything() {
  local arch store
  for arch in ${ARCHS:-amd64 arm64}; do
    for store in '' postgres redis; do
      lambda_function "dist/handler-$arch${store:+-$store}" "./lambda/handler${store:+/$store}" linux "$arch"
      layer_zip "$arch" "$store"
    done
    layer_zip "$arch" schemas
    lambda_function "dist/relay-$arch" ./lambda/relay linux "$arch"
    lambda_function "dist/maintenance-$arch" ./lambda/maintenance linux "$arch"
    CGO_ENABLED=0 GOOS=linux GOARCH=$arch compile "dist/ledger-consumer-$arch" ./lambda/handler/process -ldflags '-s -w'
    idemsk_consumer "dist/idemsk-consumer-$arch" linux "$arch"
  done
  [[ $(go env GOOS) == linux ]] || { own && own_consumer; }
}

version=$(git describe --tags --always --dirty 2>/dev/null || true)
case ${1:-} in
  layer)
    for arch in ${ARCHS:-amd64 arm64}; do layer_zip "$arch"; done
    exit
    ;;
  functions) everything; exit ;;
  consumer) idemsk_consumer bin/idemsk-consumer "$(go env GOOS)" "$(go env GOARCH)"; exit ;;
  only)
    for name in "${@:2}"; do only "$name"; done
    exit
    ;;
  cdk)
    compile ".cache/cdk/app${2:+-$2}" "./infra/cdk${2:+/$2}"
    exit
    ;;
esac
compile bin/idemsk ./cmd/idemsk -ldflags "-X main.version=$version"
case ${1:-} in
  '') everything ;;
  run)
    own
    for extra in "${@:2}"; do
      if [[ $extra == process ]]; then own_consumer; else own "$extra"; fi
    done
    ;;
  *)
    echo "usage: scripts/build.sh [layer | functions | consumer | only NAME… | cdk [NAME] | run [postgres|redis] [process]]" >&2
    exit 2
    ;;
esac
