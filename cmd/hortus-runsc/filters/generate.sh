#!/bin/sh
# Compiles the seccomp programs of all architectures: go generate ./filters
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset GOARCH # go generate sets it
here=$(go env GOHOSTARCH)
for pair in amd64:qemu-x86_64-static arm64:qemu-aarch64-static; do
  arch=${pair%%:*}
  CGO_ENABLED=0 GOARCH=$arch go build -o "$tmp/gen-$arch" ./gen
  if [ "$arch" = "$here" ]; then "$tmp/gen-$arch"; else "${pair#*:}" "$tmp/gen-$arch"; fi
done
