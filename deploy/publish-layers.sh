#!/usr/bin/env bash
# publish-layers.sh [STORE | schemas]: publishes the layers of this folder, for each architecture that it has, with DynamoDB alone, or
# with postgres or redis, or with all stores and decoders, in the account and the region of the AWS CLI, and prints their ARNs.
set -euo pipefail
cd "$(dirname "$0")"
published=0
for arch in arm64 x86_64; do
  zip=idemsk-layer-$arch${1:+-$1}.zip
  [[ -f $zip ]] || continue
  aws lambda publish-layer-version --layer-name "idemsk-$arch${1:+-$1}" --compatible-architectures $arch --license-info Apache-2.0 \
    --description "$(cat VERSION)" --zip-file "fileb://$zip" --query LayerVersionArn --output text
  published=1
done
[[ $published == 1 ]] || { echo "publish-layers: there is no idemsk-layer-ARCH${1:+-$1}.zip in $PWD" >&2; exit 1; }
