#!/usr/bin/env bash
# aws-check.sh [FLAGS…]: builds and runs cmd/idemsk/internal/awscheck, which deploys the example to an AWS account, checks it there, and
# destroys it. It says what that costs, and asks. YES=1 does not ask. LOCAL=1: on LocalStack, which is started and stopped if it is
# down. Another LocalStack is the one at AWS_ENDPOINT_URL. POLLERS=on-demand: without provisioned pollers. RECORDS, SEED.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD dist=$PWD/dist/aws-check work=$PWD/.cache/aws-check
mkdir -p "$dist" "$work"
# Programs for the architecture of this machine, which LocalStack needs.
arch=$(go env GOARCH)
build() {
  echo "aws-check: building $1" >&2
  CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -tags lambda.norpc -ldflags '-s -w' -o "$dist/$1/bootstrap" "$2"
}
build handler ./lambda/handler
build producer ./cmd/idemsk/internal/awscheck/producer
go build -o "$dist/aws-check" ./cmd/idemsk/internal/awscheck
flags=(--name "aws-check-$(date -u +%H%M%S)-$$" --cdk "$root/scripts/cdk.sh" --handler "$dist/handler" --producer "$dist/producer"
  --work "$work" --version "$(git describe --tags --always --dirty)")
[[ -z ${YES:-} ]] || flags+=(--yes)
[[ ${POLLERS:-} != on-demand ]] || flags+=(--on-demand)
[[ -z ${RECORDS:-} ]] || flags+=(--records "$RECORDS")
[[ -z ${SEED:-} ]] || flags+=(--seed "$SEED")
if [[ -n ${AWS_ENDPOINT_URL:-} ]]; then
  flags+=(--local "$AWS_ENDPOINT_URL")
elif [[ -n ${LOCAL:-} ]]; then
  eval "$(localstack/localstack.sh env)"
  exec scripts/with-localstack.sh "$dist/aws-check" "${flags[@]}" --local "$AWS_ENDPOINT_URL" "$@"
fi
exec "$dist/aws-check" "${flags[@]}" "$@"
