#!/usr/bin/env bash
# deploy-local.sh deploy|destroy: deploys the stack of infra/cdk to LocalStack, or destroys it there. LocalStack is started if
# it is not up, and keeps running, because the stack exists only in it.
set -euo pipefail
cd "$(dirname "$0")/.."
verb=${1:-}
case $verb in
  deploy) ;;
  destroy)
    localstack/localstack.sh status >/dev/null || {
      echo "LocalStack is down: there is nothing to destroy"
      exit
    }
    ;;
  *)
    echo "usage: scripts/deploy-local.sh deploy|destroy" >&2
    exit 2
    ;;
esac
settings=(
  -c example=ledger
  -c "architecture=$([[ $(uname -m) == aarch64 ]] && echo arm64 || echo x86_64)"
  -c "clusterArn=${CLUSTER_ARN:-arn:aws:kafka:us-east-1:000000000000:cluster/local/00000000-0000-0000-0000-000000000000-1}"
  -c "topics=${TOPIC:-payments}" -c "consumerGroup=${GROUP:-payments-ledger}"
  -c ephemeral=true
)
scripts/build.sh run
localstack/localstack.sh up >/dev/null
eval "$(localstack/localstack.sh env)"
unset AWS_PROFILE AWS_SESSION_TOKEN # they would take the place of LocalStack's credentials
if [[ $verb == destroy ]]; then
  exec scripts/cdk.sh destroy "${settings[@]}" --force
fi
scripts/cdk.sh bootstrap aws://000000000000/us-east-1 >/dev/null
scripts/cdk.sh deploy "${settings[@]}" --require-approval never --outputs-file "$PWD/.cache/deployed.json"
output() { sed -n "s/.*\"$1\": \"\(.*\)\".*/\1/p" .cache/deployed.json; }
cat <<SAY

Deployed to LocalStack at $AWS_ENDPOINT_URL: its table, function, queue and event source mapping are among the outputs above.
LocalStack polls no event source mapping; this serves it, from a Kafka in its own process:
  bin/idemsk local --from-localstack --produce 1000 --until-drained
To look at its keys, and to invoke it yourself (that takes the AWS CLI):
  bin/idemsk list --endpoint-url $AWS_ENDPOINT_URL --table $(output TableName)
  eval "\$(localstack/localstack.sh env)"
  aws lambda invoke --function-name $(output FunctionName):live --payload fileb://events/one-record.json .cache/answer.json
\`make destroy-local\` removes the stack, \`make localstack-down\` ends LocalStack.
SAY
