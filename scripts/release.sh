#!/usr/bin/env bash
# release.sh VERSION: writes what a release consists of into dist/release: the tool as archives and packages, the consumer for any
# language, the layers with a script that publishes them, the functions, the chart, images, a bill of materials for each program,
# checksums and a provenance statement.
#
# The bytes depend on the commit, on the versions of Go, gzip and zip, and for images on this machine's certificates of public CAs.
# ARCHS (amd64 arm64) and SYSTEMS (linux darwin) select less. The statement is not signed: the workflow of a release signs one.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "release: $*" >&2; exit 1; }

version=${1:-}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]] || fail "usage: make release VERSION=v1.2.3"
[[ -z $(git status --porcelain) ]] || fail "the work tree has changes: a release is built from a commit"
tagged=$(git rev-parse -q --verify "refs/tags/$version^{commit}" || true)
[[ ${tagged:-$(git rev-parse HEAD)} == "$(git rev-parse HEAD)" ]] || fail "HEAD is not $version: git checkout $version"
for tool in jq zip; do command -v $tool >/dev/null || fail "$tool is needed"; done
tar --version | grep -q GNU || fail "GNU tar is needed"
certificates=${CERTIFICATES:-/etc/ssl/certs/ca-certificates.crt}
[[ -r $certificates ]] || fail "$certificates is missing (Debian: ca-certificates), or set CERTIFICATES"

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH GOFLAGS=-buildvcs=false CGO_ENABLED=0 TZ=UTC0
umask 022
export ARCHS=${ARCHS:-amd64 arm64}
out=dist/release work=dist/release-work
rm -rf $out $work && mkdir -p $out $work

# pack FILE FOLDER NAME…: a tar archive of files, which does not depend on who packs it and when.
pack() { tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" -C "$2" -cf "$1" "${@:3}"; }

# licenses: the licences of what the programs contain.
licenses() {
  local path number folder
  echo "idemsk and the modules that it contains"
  go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/idemsk ./cmd/idemsk-consumer ./lambda/... | sort -u |
    { echo "Go $(go env GOVERSION) $(go env GOROOT)"; cat; } | while read -r path number folder; do
      printf '\n==== %s %s\n' "$path" "$number"
      find -L "$folder" -maxdepth 1 -iregex '.*/\(licen[cs]e\|copying\|notice\)[^/]*' -type f | sort | xargs -r cat
    done
  printf '\n==== idemsk\n' && cat LICENSE
}

# tools: archives of the tool and of the consumer process for handlers in other languages, and packages of the tool.
tools() {
  local os arch folder program
  for os in ${SYSTEMS:-linux darwin}; do
    for arch in $ARCHS; do
      echo "release: the tool and the consumer for $os, $arch" >&2
      folder=$work/$os-$arch
      mkdir -p "$folder" && cp LICENSE CHANGELOG.md $work/licenses.txt "$folder"
      for program in idemsk idemsk-consumer; do
        GOOS=$os GOARCH=$arch go build -trimpath -ldflags "-s -w -X main.version=$version" -o "$folder/$program" ./cmd/$program
        pack "$work/tar" "$folder" CHANGELOG.md LICENSE $program licenses.txt
        gzip -9n <"$work/tar" >"$out/${program}_${version}_${os}_$arch.tar.gz"
      done
      [[ $os == linux ]] || continue
      for kind in deb rpm; do
        VERSION=${version#v} ARCH=$arch FOLDER=$folder \
          scripts/tool.sh nfpm package -f deploy/nfpm.yaml -p $kind -t "$out/idemsk_${version}_$arch.$kind" >/dev/null
      done
    done
  done
}

# functions: the Lambda functions and the layers.
functions() {
  local folder
  rm -rf dist/{handler,relay,maintenance,layer}-* dist/idemsk-layer-*
  scripts/build.sh functions
  for folder in dist/{handler,relay,maintenance}-*; do
    touch -d "@$SOURCE_DATE_EPOCH" "$folder/bootstrap"
    (cd "$folder" && zip -q -X -9 "$OLDPWD/$out/${folder#dist/}.zip" bootstrap)
  done
  cp dist/idemsk-layer-*.zip deploy/publish-layers.sh $out
  echo "$version" >$out/VERSION
}

crane() { scripts/tool.sh crane "$@" >>$work/crane.log 2>&1 || fail "crane $1: $(tail -n 3 $work/crane.log)"; }

# image NAME PROGRAM [ARGUMENTS…]: an image for all architectures, with a program of dist that is named by its architecture. It has no
# shell and no base image. The registry at $registry has the images while they are put together.
image() {
  local name=$1 program=$2 arch of manifests=()
  for arch in $ARCHS; do
    of=$work/image-$name-$arch
    mkdir -p "$of/etc/ssl/certs" && cp "$certificates" "$of/etc/ssl/certs/ca-certificates.crt"
    cp "${program//ARCH/$arch}" "$of/$name" && cp $work/licenses.txt "$of"
    pack "$of.tar" "$of" etc licenses.txt "$name"
    crane append --oci-empty-base -f "$of.tar" -t "$registry/$name:$arch"
    crane mutate "$registry/$name:$arch" -t "$registry/$name:$arch" --set-platform "linux/$arch" --user 65532:65532 \
      --entrypoint "$(IFS=,; echo "/$name${*:3:1}")" "${settings[@]}" \
      -l org.opencontainers.image.version="$version" -l org.opencontainers.image.licenses=Apache-2.0 \
      -l org.opencontainers.image.source=https://github.com/idemsk/idemsk
    manifests+=(-m "$registry/$name:$arch")
  done
  crane index append "${manifests[@]}" -t "$registry/$name:$version"
  crane pull --format=oci "$registry/$name:$version" "$work/oci-$name"
  pack "$out/image-$name.tar" "$work/oci-$name" .
}

images() {
  local settings=() registry=127.0.0.1:${REGISTRY_PORT:-5056}
  scripts/tool.sh crane registry serve --address "$registry" --disk "$work" 2>$work/registry.log &
  serving=$!
  trap 'kill $serving' EXIT
  until scripts/tool.sh crane catalog "$registry" >/dev/null 2>&1; do kill -0 $serving || fail "$(cat $work/registry.log)"; done
  image idemsk "$work/linux-ARCH/idemsk"
  image idemsk-relay "$work/linux-ARCH/idemsk" ,relay
  settings=(--env IDEMSK_HTTP_ADDR=:8080 --exposed-ports 8080)
  image ledger-consumer dist/ledger-consumer-ARCH
  settings=(--env IDEMSK_HTTP_ADDR=:9464 --exposed-ports 9464) # 8080 is often that of the web service in its pod
  image idemsk-consumer "$work/linux-ARCH/idemsk-consumer"
}

# chart: the Helm chart, as helm package would name it.
chart() {
  mkdir -p $work/chart && cp -r deploy/helm/idemsk-consumer $work/chart
  sed -i "s/^version: [^ ]*/version: ${version#v}/; s/^appVersion: .*/appVersion: ${version#v}/" $work/chart/idemsk-consumer/Chart.yaml
  pack $work/tar $work/chart idemsk-consumer
  gzip -9n <$work/tar >"$out/idemsk-consumer-${version#v}.tgz"
}

# materials: for each program what it contains, with licences, as CycloneDX. Those with the client of a store have a part of what
# ledger-consumer has, and the layer with decoders a part of what idemsk-consumer has.
materials() {
  local arch=${ARCHS%% *} program name
  for program in $work/linux-$arch/idemsk{,-consumer} dist/ledger-consumer-$arch dist/{handler,relay,maintenance}-$arch/bootstrap \
    dist/layer-$arch/bin/idemsk-layer; do
    name=${program#dist/} name=${name#release-work/linux-$arch/} name=${name%/bin/idemsk-layer} name=${name%/bootstrap}
    scripts/tool.sh cyclonedx-gomod bin -json -licenses -noserial -notimestamp -version "$version" "$program" 2>/dev/null |
      jq --arg version "$version" 'walk(if type == "string" then gsub("\\(devel\\)"; $version) else . end)
        | (.metadata.component, .components[]) |= if (.name | startswith("github.com/idemsk/"))
          then .licenses = [{license: {id: "Apache-2.0"}}] else . end' >"$out/${name/-$arch/}.cdx.json"
  done
}

# provenance: which commit, toolchain and certificates the files of the release were made from: an in-toto statement.
provenance() {
  jq -n --arg version "$version" --arg commit "$(git rev-parse HEAD)" --arg go "$(go env GOVERSION)" --rawfile sums $out/SHA256SUMS \
    --arg certificates "$(sha256sum <"$certificates" | cut -d ' ' -f 1)" --arg builder "${BUILDER:-scripts/release.sh}" '{
      _type: "https://in-toto.io/Statement/v1",
      subject: [$sums | split("\n")[] | select(. != "") | {name: .[66:], digest: {sha256: .[:64]}}],
      predicateType: "https://slsa.dev/provenance/v1",
      predicate: {
        buildDefinition: {
          buildType: ("https://github.com/idemsk/idemsk/blob/" + $version + "/scripts/release.sh"),
          externalParameters: {version: $version},
          resolvedDependencies: [
            {uri: "git+https://github.com/idemsk/idemsk", digest: {gitCommit: $commit}},
            {name: "toolchain", annotations: {version: $go}},
            {name: "ca-certificates.crt", digest: {sha256: $certificates}}]},
        runDetails: {builder: {id: $builder}}}}' >$out/provenance.intoto.json
}

licenses >$work/licenses.txt
tools
functions
chart
images
materials
(cd $out && sha256sum -- * >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS)
provenance
rm -rf $work/blobs
echo "release: $version is in $out"
