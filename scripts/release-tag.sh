#!/usr/bin/env bash
# release-tag.sh VERSION: makes the commits and tags of a release in this clone, and prints the push that publishes them.
#
# The nested modules require the library by VERSION. A replace, which importers ignore, lets them be built in a clone as well. Only the
# tool's module has none in the tagged commit, because go install refuses it. A second commit puts its replaces back.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "release-tag: $*" >&2; exit 1; }

version=${1:-}
library=github.com/idemsk/idemsk
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || fail "usage: scripts/release-tag.sh v1.2.3"
[[ -z $(git status --porcelain) ]] || fail "the work tree has changes: commit them first"
grep -q "^## $version\$" CHANGELOG.md || fail "CHANGELOG.md has no heading '## $version': write what users must know"
tags=("$version" {schema,telemetry,infra/cdk,cmd}/"$version")
for tag in "${tags[@]}"; do
  ! git rev-parse -q --verify "refs/tags/$tag" >/dev/null || fail "the tag $tag exists: releases are never changed, take the next version"
done
branch=$(git symbolic-ref --short HEAD) || fail "no branch is checked out"

for module in schema telemetry infra/cdk cmd test; do
  go -C $module mod edit -require "$library@$version"
done
go -C cmd mod edit -require "$library/schema@$version"
go -C cmd mod edit -dropreplace $library -dropreplace $library/schema
go work edit -replace "$library/schema@$version=./schema" # as the replace of cmd/go.mod did
git commit -qam "Release $version"
for tag in "${tags[@]}"; do git tag -a "$tag" -m "idemsk $version"; done

# The checksums of the tool's go.sum. No module contains cmd, so the commit that has them has the same ones. The go command finds the
# tags here, and its cache of modules is not the ordinary one, because nothing is published yet.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$PWD.insteadOf" GIT_CONFIG_VALUE_0=https://$library
GOPROXY=file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY) GOMODCACHE=$scratch GOFLAGS=-modcacherw GOWORK=off \
  GONOPROXY=$library GONOSUMDB=$library go -C cmd mod download $library $library/schema
git commit -qa --amend --no-edit
for tag in "${tags[@]}"; do git tag -f -a "$tag" -m "idemsk $version" >/dev/null; done

git checkout -q HEAD~1 -- go.work cmd/go.sum
go -C cmd mod edit -replace $library=.. -replace $library/schema=../schema
git commit -qam "Build the tool from the clone again after $version"
echo "git push origin $branch ${tags[*]}"
