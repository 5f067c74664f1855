#!/usr/bin/env bash
# Builds kube-apiserver and kubectl from their modules: kubernetes.sh VERSION DIR.
# Kubernetes points its own parts at folders that a module does not have, so
# each part is named again by its version. The build takes minutes and is kept.
set -euo pipefail
version=$1 bin=$2
GO=${GO:-go}

have() { [ -x "$bin/$1" ] && [ "$(cat "$bin/$1.version" 2>/dev/null)" = "$version" ]; }
if have kube-apiserver && have kubectl; then exit 0; fi

echo "building kube-apiserver and kubectl $version"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
minor=${version#v1.}
parts=v0.$minor

module=$($GO mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
{
	echo "module peers"
	sed -n 's/^go /go /p' "$module"
	echo "require k8s.io/kubernetes $version"
	sed -n "s|^\t*\(k8s.io/[a-z-]*\) => ./staging/.*|replace \1 => \1 $parts|p" "$module"
} >go.mod
cat >tools.go <<'GO'
//go:build tools

package peers

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
GO
$GO mod tidy
mkdir -p "$bin"
stamp=k8s.io/component-base/version
for program in kube-apiserver kubectl; do
	CGO_ENABLED=0 $GO build -trimpath -o "$bin/$program" \
		-ldflags "-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*} -X k8s.io/client-go/pkg/version.gitVersion=$version" \
		"k8s.io/kubernetes/cmd/$program"
	echo "$version" >"$bin/$program.version"
done
