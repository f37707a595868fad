#!/usr/bin/env bash
# deploy.sh deploy|diff|destroy|synth: the stack of infra/cdk in the AWS account that the environment names (AWS_PROFILE, AWS_REGION),
# or only its template. CODE is the folder or the .zip file of your function, or EXAMPLE=ledger in its place is the demonstration.
# CLUSTER_ARN and TOPIC must be set, but for a template; GROUP is the consumer group, idemsk-TOPIC by default. CDK_ARGS are passed on:
# -c NAME=VALUE for a value in infra/cdk/README.md.
set -euo pipefail
verb=${1:-}
settings=() wrong=()
case $verb in
  deploy | diff | destroy) ;;
  synth)
    : "${CLUSTER_ARN:=arn:aws:kafka:eu-central-1:111122223333:cluster/payments/6cc0432b-8618-4f44-bccc-e1fbd8fb7c4d-2}" "${TOPIC:=payments}"
    settings+=(--quiet)
    ;;
  *) wrong+=("the verb is '$verb': want deploy, diff, destroy or synth") ;;
esac
usage="make $verb CODE=PATH CLUSTER_ARN=arn:aws:kafka:REGION:ACCOUNT:cluster/NAME/ID TOPIC=payments"
if [[ -n ${CODE:-} && -n ${EXAMPLE:-} ]]; then
  wrong+=("CODE and EXAMPLE are set: want your own function, or the demonstration")
elif [[ -n ${CODE:-} ]]; then # the CDK runs in another folder
  if [[ -e $CODE ]]; then
    settings+=(-c "code=$(cd "$(dirname "$CODE")" && pwd -P)/$(basename "$CODE")")
  else
    wrong+=("CODE is '$CODE', which does not exist: want the folder or the .zip file of your function")
  fi
elif [[ -n ${EXAMPLE:-} ]]; then
  settings+=(-c "example=$EXAMPLE")
else
  wrong+=("CODE is not set: want the folder or the .zip file of your function, as in $usage; or EXAMPLE=ledger, the demonstration")
fi
[[ ${CLUSTER_ARN:-} =~ ^arn:aws[a-z-]*:kafka:[a-z0-9-]+:[0-9]{12}:cluster/[^/]+/[^/]+$ ]] ||
  wrong+=("CLUSTER_ARN is '${CLUSTER_ARN:-}': want the MSK cluster's, as in $usage")
[[ ${TOPIC:-} =~ ^[a-zA-Z0-9._-]{1,249}$ && $TOPIC != . && $TOPIC != .. ]] ||
  wrong+=("TOPIC is '${TOPIC:-}': want the name of the topic to consume, of letters, digits, '.', '_' and '-'")
if [[ ${#wrong[@]} -gt 0 ]]; then
  printf 'deploy: %s\n' "${wrong[@]}" >&2
  exit 2
fi
read -ra more <<<"${CDK_ARGS:-}"
"$(dirname "$0")/cdk.sh" "$verb" "${settings[@]}" -c "clusterArn=$CLUSTER_ARN" -c "topics=$TOPIC" -c "consumerGroup=${GROUP:-idemsk-$TOPIC}" \
  ${more[@]+"${more[@]}"}
[[ $verb != synth ]] || echo "The template is in infra/cdk/cdk.out."
