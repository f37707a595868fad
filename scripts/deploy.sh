#!/usr/bin/env bash
# deploy.sh deploy|diff|destroy: the stack of infra/cdk in the AWS account that the environment names (AWS_PROFILE, AWS_REGION).
# CLUSTER_ARN and TOPIC must be set; GROUP is the consumer group, idemsk-TOPIC by default. CDK_ARGS are passed on: -c NAME=VALUE
# for any setting in infra/cdk/README.md.
set -euo pipefail
cd "$(dirname "$0")/.."
verb=${1:-}
wrong=()
case $verb in deploy | diff | destroy) ;; *) wrong+=("the verb is '$verb': want deploy, diff or destroy") ;; esac
[[ ${CLUSTER_ARN:-} =~ ^arn:aws[a-z-]*:kafka:[a-z0-9-]+:[0-9]{12}:cluster/[^/]+/[^/]+$ ]] ||
  wrong+=("CLUSTER_ARN is '${CLUSTER_ARN:-}': want the MSK cluster's, as in make $verb CLUSTER_ARN=arn:aws:kafka:REGION:ACCOUNT:cluster/NAME/ID TOPIC=payments")
[[ ${TOPIC:-} =~ ^[a-zA-Z0-9._-]{1,249}$ && $TOPIC != . && $TOPIC != .. ]] ||
  wrong+=("TOPIC is '${TOPIC:-}': want the name of the topic to consume, of letters, digits, '.', '_' and '-'")
if [[ ${#wrong[@]} -gt 0 ]]; then
  printf 'deploy: %s\n' "${wrong[@]}" >&2
  exit 2
fi
scripts/build.sh # also for destroy, because the CDK runs the app
read -ra more <<<"${CDK_ARGS:-}"
exec scripts/cdk.sh "$verb" -c "clusterArn=$CLUSTER_ARN" -c "topics=$TOPIC" -c "consumerGroup=${GROUP:-idemsk-$TOPIC}" ${more[@]+"${more[@]}"}
