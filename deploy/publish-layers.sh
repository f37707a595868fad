#!/usr/bin/env bash
# publish-layers.sh [STORE]: publishes the layers of this folder, with DynamoDB alone or with postgres or redis, in the account and the
# region of the AWS CLI, and prints their ARNs.
set -euo pipefail
cd "$(dirname "$0")"
for arch in arm64 x86_64; do
  aws lambda publish-layer-version --layer-name "idemsk-$arch${1:+-$1}" --compatible-architectures $arch --license-info Apache-2.0 \
    --description "$(cat VERSION)" --zip-file "fileb://idemsk-layer-$arch${1:+-$1}.zip" --query LayerVersionArn --output text
done
