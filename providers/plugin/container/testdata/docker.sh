#!/bin/sh
# A stand-in for docker: it keeps its state below $MACHINE and refuses what
# docker refuses. Images are in $REGISTRY: a file for each tag with its digest,
# and one for each digest with what becomes of its container: ok or crash.
set -u
say() { printf '%s\n' "$1" >&2; exit "$2"; }
echo "$*" >>"$MACHINE/calls"
mkdir -p "$MACHINE/images" "$MACHINE/containers"
[ ! -e "$MACHINE/refuse" ] || say "permission denied while trying to connect to the Docker daemon socket ($(cat "$MACHINE/refuse"))" 1
file() { printf '%s' "$1" | tr / _; }
known() { # image reference -> digest
	case $1 in
	*@*) echo "${1#*@}" ;;
	*) cat "$MACHINE/images/$(file "$1")" 2>/dev/null ;;
	esac
}
case "$1 ${2-}" in
"pull "*)
	[ $# -eq 2 ] || say "\"docker pull\" requires exactly 1 argument." 1
	[ ! -e "$REGISTRY/down" ] || say "Error response from daemon: Get \"https://registry.test/v2/\": dial tcp: connection refused" 1
	[ ! -e "$REGISTRY/login" ] || say "Error response from daemon: pull access denied for $2" 1
	case $2 in
	*@*) digest=${2#*@} ;;
	*) digest=$(cat "$REGISTRY/$(file "$2")" 2>/dev/null) || say "Error response from daemon: manifest for $2 not found: manifest unknown" 1 ;;
	esac
	[ -e "$REGISTRY/$digest" ] || say "Error response from daemon: manifest unknown" 1
	[ "$2" = "${2#*@}" ] && echo "$digest" >"$MACHINE/images/$(file "$2")"
	cp "$REGISTRY/$digest" "$MACHINE/images/$digest"
	echo "Status: Downloaded newer image for $2"
	;;
"image inspect")
	digest=$(known "$3") && [ -e "$MACHINE/images/$digest" ] || { echo "[]"; say "Error response from daemon: No such image: $3" 1; }
	repo=${3%@*} repo=${repo%:*}
	echo "[{\"Id\": \"sha256:1d\", \"RepoDigests\": [\"other.test/app@sha256:99\", \"$repo@$digest\"]}]"
	;;
"container ls")
	[ "$3 $4 $5 $6" = "--all --no-trunc --quiet --filter" ] || say "unknown flag" 125
	pattern=${7#name=}
	for c in "$MACHINE"/containers/*; do
		[ -d "$c" ] || continue
		if grep -q -- "$pattern" "$c/name"; then basename "$c"; fi
	done
	;;
"container inspect")
	c=$MACHINE/containers/$3
	[ -d "$c" ] || { echo "[]"; say "Error response from daemon: No such container: $3" 1; }
	labels=
	while IFS='=' read -r key value; do labels="$labels${labels:+, }\"$key\": \"$value\""; done <"$c/labels"
	health=
	[ ! -e "$MACHINE/health" ] || health=", \"Health\": {\"Status\": \"$(cat "$MACHINE/health")\"}"
	status=$(cat "$c/status")
	[ ! -e "$MACHINE/status" ] || status=$(cat "$MACHINE/status")
	echo "[{\"Id\": \"$3\", \"Name\": \"/$(cat "$c/name")\", \"Config\": {\"Labels\": {$labels}}, \"State\": {\"Status\": \"$status\", \"ExitCode\": 3$health}}]"
	;;
"stop -t")
	[ $# -eq 4 ] && [ "$3" -ge 0 ] || say "usage" 1
	[ -d "$MACHINE/containers/$4" ] || say "Error response from daemon: No such container: $4" 1
	echo exited >"$MACHINE/containers/$4/status"
	;;
"rm --force")
	[ -d "$MACHINE/containers/$3" ] || say "Error response from daemon: No such container: $3" 1
	[ "$(cat "$MACHINE/containers/$3/status")" != running ] || say "the test wants it to be stopped first" 1
	rm -r "$MACHINE/containers/$3"
	;;
"logs --tail")
	[ -d "$MACHINE/containers/$4" ] || say "Error response from daemon: No such container: $4" 1
	cat "$MACHINE/containers/$4/env" >&2
	echo "cannot open the database"
	;;
"run --detach")
	shift 2
	name= env= labels= publish=
	while [ $# -gt 0 ]; do
		case $1 in
		--name) name=$2; shift 2 ;;
		--env-file)
			env=$2; shift 2
			[ -f "$env" ] || say "docker: open $env: no such file or directory." 125
			[ "$(stat -c %a "$env")" = 600 ] || say "the test wants mode 600" 125
			;;
		--label) labels="$labels$2
"; shift 2 ;;
		--publish) publish=$2; shift 2 ;;
		--restart | --memory) shift 2 ;;
		-*) say "unknown flag: $1" 125 ;;
		*) break ;;
		esac
	done
	image=$1
	shift
	digest=$(known "$image") && [ -e "$MACHINE/images/$digest" ] || say "the test wants $image to be pulled first" 125
	for c in "$MACHINE"/containers/*; do
		[ -d "$c" ] || continue
		[ "$(cat "$c/name")" != "$name" ] || say "docker: Error response from daemon: Conflict. The container name \"/$name\" is already in use." 125
	done
	id=$(printf '%064d' "$(date +%N | sed 's/^0*//')")
	c=$MACHINE/containers/$id
	mkdir "$c"
	echo "$name" >"$c/name"
	printf '%s' "$labels" >"$c/labels"
	cp "$env" "$c/env"
	chmod 644 "$c/env"
	echo "$image $*" >"$c/image"
	echo created >"$c/status"
	for other in "$MACHINE"/containers/*; do
		[ "$other" = "$c" ] || [ -z "$publish" ] || [ "$(cat "$other/publish" 2>/dev/null)" != "$publish" ] ||
			say "docker: Error response from daemon: driver failed programming external connectivity: Bind for 0.0.0.0:$publish failed: port is already allocated." 125
	done
	echo "$publish" >"$c/publish"
	echo running >"$c/status"
	[ "$(cat "$MACHINE/images/$digest")" != crash ] || echo exited >"$c/status"
	echo "$id"
	;;
*) say "docker: '$1' is not a docker command." 1 ;;
esac
