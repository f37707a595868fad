#!/usr/bin/env bash
# aws-check.sh [FLAGS…]: builds and runs cmd/idemsk/internal/awscheck, which deploys the example to an AWS account, checks it there, and
# destroys it. It says what that costs, and asks. YES=1 does not ask. LOCAL=1: on LocalStack, which is started and stopped if it is
# down. Another LocalStack is the one at AWS_ENDPOINT_URL. POLLERS=on-demand: without provisioned pollers. RECORDS, SEED.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD work=$PWD/.cache/aws-check
mkdir -p "$work"
# Programs for the architecture of this machine, which LocalStack needs.
arch=$(go env GOARCH)
scripts/build.sh only "handler-$arch" "aws-check-producer-$arch"
go build -o bin/aws-check ./cmd/idemsk/internal/awscheck
flags=(--name "aws-check-$(date -u +%H%M%S)-$$" --cdk "$root/scripts/cdk.sh" --handler "$root/dist/handler-$arch"
  --producer "$root/dist/aws-check-producer-$arch" --work "$work" --version "$(git describe --tags --always --dirty)")
[[ -z ${YES:-} ]] || flags+=(--yes)
[[ ${POLLERS:-} != on-demand ]] || flags+=(--on-demand)
[[ -z ${RECORDS:-} ]] || flags+=(--records "$RECORDS")
[[ -z ${SEED:-} ]] || flags+=(--seed "$SEED")
if [[ -n ${AWS_ENDPOINT_URL:-} ]]; then
  flags+=(--local "$AWS_ENDPOINT_URL")
elif [[ -n ${LOCAL:-} ]]; then
  eval "$(localstack/localstack.sh env)"
  exec scripts/with-localstack.sh "$root/bin/aws-check" "${flags[@]}" --local "$AWS_ENDPOINT_URL" "$@"
fi
exec bin/aws-check "${flags[@]}" "$@"
