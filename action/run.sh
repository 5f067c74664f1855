#!/usr/bin/env bash
# Brings the binary and becomes it. Sourced by the one step of action.yml; must
# not know what a rollout is.
#
# Written for the oldest bash of a runner, the 3.2 of macOS, and for the bash of
# Git for Windows. Whatever a user has typed is an environment variable here,
# and an argument of manent later; none of it is ever read as a script.
#
# It ends like manent: 64 for wrong inputs, 5 when the binary could not be
# brought or begun, whatever kept it, 2 when the job was cancelled before manent
# has begun. In each case nothing was touched.
set -euo pipefail
shopt -s execfail # a failing exec is answered below

releases=${MANENT_RELEASES:-https://github.com/manent/action/releases/download}
max_bytes=104857600 # of a download
fresh=              # folder of a download under way

# fail CODE MESSAGE HINT ends with the message in the log and as an annotation,
# in which nothing may begin a command of its own.
fail() {
	local said
	said="$2"$'\n'"hint: $3"
	printf 'manent: %s\n' "$said" >&2
	said=${said//\%/%25}
	said=${said//$'\r'/%0D}
	said=${said//$'\n'/%0A}
	printf '::error::%s\n' "$said" >&2
	trap - EXIT
	[ -z "$fresh" ] || rm -rf "$fresh" || true
	exit "$1"
}

# A shell ends at a signal only after the program that it waits for, and would
# then go on.
trap 'fail 2 "not yet: the job was cancelled before manent began; nothing was touched" "run the job again"' INT TERM HUP

# What ends here without fail was not foreseen. The status is not looked at:
# bash 3.2 has 0 there for a variable that is not set.
trap 'fail 5 "could not tell: the script that brings manent has failed; nothing was touched" "see the messages above"' EXIT

# system sets $system and $ext to what the names of a release's files have.
system() {
	local os arch
	ext=
	case ${RUNNER_OS:-} in
	Linux) os=linux ;;
	macOS) os=darwin ;;
	Windows) os=windows ext=.exe ;;
	*) fail 64 "usage: RUNNER_OS is \"${RUNNER_OS:-}\", expected Linux, macOS or Windows" "set the input binary-path to a manent of your own" ;;
	esac
	case ${RUNNER_ARCH:-} in
	X64) arch=amd64 ;;
	ARM64) arch=arm64 ;;
	*) fail 64 "usage: RUNNER_ARCH is \"${RUNNER_ARCH:-}\", expected X64 or ARM64" "set the input binary-path to a manent of your own" ;;
	esac
	system=$os-$arch
}

# slashed PATH prints a path of Windows as bash and Go both read it.
slashed() {
	if [ "${RUNNER_OS:-}" = Windows ]; then printf '%s' "${1//\\//}"; else printf '%s' "$1"; fi
}

# digest FILE prints its SHA-256.
digest() {
	local sum
	if command -v sha256sum >/dev/null; then
		sum=$(sha256sum <"$1") || return # set -e does not hold in $(digest …)
	else
		sum=$(shasum -a 256 <"$1") || return
	fi
	printf '%s' "${sum%% *}"
}

# download NAME FILE gets a file of the release, over https only.
download() {
	curl -fsSL --proto '=https' --proto-redir '=https' --tlsv1.2 --retry 3 --connect-timeout 20 --max-time 300 \
		--max-filesize "$max_bytes" -o "$2" "$releases/$release/$1" ||
		fail 5 "could not tell: $releases/$release/$1 could not be downloaded; nothing was touched" \
			"does the release $release have it? Set the input manent-version to one that does, MANENT_RELEASES to a mirror, or binary-path"
}

# listed NAME FILE prints the digest that a list of checksums has for a name, in
# small letters. The list may have Windows' line ends, and none at its end.
listed() {
	local sum name
	while read -r sum name || [ -n "$sum" ]; do
		name=${name%$'\r'}
		if [ "${name#\*}" = "$1" ] && [[ $sum =~ ^[0-9A-Fa-f]{64}$ ]]; then
			printf '%s' "$sum" | tr A-F a-f
			return
		fi
	done <"$2"
}

# released sets $binary to the release's file, from the cache of the runner if
# it is there as the release lists it. The list is got each time: one in the
# cache could be changed along with the file.
released() {
	command -v curl >/dev/null || fail 5 "could not tell: curl is not on this runner; nothing was touched" "install it, or set the input binary-path"
	local cache asset want got
	system
	asset=manent-$system$ext
	cache=$(slashed "${RUNNER_TOOL_CACHE:-$RUNNER_TEMP}")/manent/$release/$system
	binary=$cache/manent$ext
	[ ! -d "$binary" ] || fail 5 "could not tell: $binary is a folder, expected manent or nothing; nothing was touched" "remove it from the runner's tool cache"
	if ! mkdir -p "$cache" || ! fresh=$(mktemp -d "$cache/new.XXXXXX"); then
		fail 5 "could not tell: nothing can be written to $cache; nothing was touched" "RUNNER_TOOL_CACHE, or RUNNER_TEMP without it, is where manent is kept"
	fi
	download checksums.txt "$fresh/checksums.txt"
	want=$(listed "$asset" "$fresh/checksums.txt")
	[ -n "$want" ] || fail 5 "could not tell: the checksums of $release do not list $asset; nothing was touched" "is it a release of manent for this system?"
	if [ ! -f "$binary" ] || [ ! -x "$binary" ] || [ "$(digest "$binary")" != "$want" ]; then
		download "$asset" "$fresh/manent$ext"
		got=$(digest "$fresh/manent$ext")
		[ "$got" = "$want" ] || fail 5 "could not tell: $asset of $release has the SHA-256 $got, expected $want; nothing was touched" "the file was changed or cut short on its way: do not use it; try again, and report it if it stays so"
		chmod 0755 "$fresh/manent$ext"
		mv -f "$fresh/manent$ext" "$binary"
	fi
	rm -rf "$fresh"
	fresh=
}

# attested asks GitHub's own client who has built $binary.
attested() {
	GH_TOKEN=${GH_TOKEN:-$INPUT_TOKEN} gh attestation verify "$binary" --repo manent/action \
		--signer-workflow manent/action/.github/workflows/release.yml --source-ref "refs/tags/$release" >&2 ||
		fail 5 "could not tell: who has built the binary of $release could not be verified; nothing was touched" "MANENT_ATTESTATION=require needs gh, and github.com or a token for it in GH_TOKEN"
}

# built sets $binary to a build of the sources beside this script.
built() {
	command -v go >/dev/null || fail 5 "could not tell: go is not on this runner, and the action of this checkout is built from source; nothing was touched" "put actions/setup-go in front of it, or set the input manent-version or binary-path"
	binary=$(slashed "$RUNNER_TEMP")/manent-built/manent
	[ "${RUNNER_OS:-}" != Windows ] || binary=$binary.exe
	(cd "$here" && CGO_ENABLED=0 go build -buildvcs=false -trimpath -o "$binary" ./cmd/manent) ||
		fail 5 "could not tell: manent could not be built in $here; nothing was touched" "see the messages above"
}

# bring sets $binary.
bring() {
	local here workspace
	here=$(cd "$GITHUB_ACTION_PATH" && pwd -P)
	workspace=$(cd "${GITHUB_WORKSPACE:-/}" && pwd -P) ||
		fail 5 "could not tell: GITHUB_WORKSPACE $(printf %q "${GITHUB_WORKSPACE:-}") cannot be entered; nothing was touched" "the runner makes it for each job: is it there, and for the user of this step?"
	if [ -n "${INPUT_BINARY_PATH:-}" ]; then
		binary=$(slashed "$INPUT_BINARY_PATH")
		if [ ! -f "$binary" ] || [ ! -x "$binary" ]; then
			fail 64 "usage: binary-path $(printf %q "$binary") is no program" "expected the path of manent on this runner"
		fi
		case $binary in */*) ;; *) binary=./$binary ;; esac
		return
	fi
	release=${INPUT_MANENT_VERSION:-}
	# "uses: ./" is a checkout of the sources inside the workspace.
	if [ -z "$release" ] && [ "$workspace" != / ] && [ -f "$here/go.mod" ]; then
		case $here/ in "$workspace"/*)
			built
			return
			;;
		esac
	fi
	release=${release:-$(cat "$here/action/version")}
	[[ $release =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] ||
		fail 64 "usage: manent-version $(printf %q "$release"), expected a release such as v1.2.0" "the releases are at https://github.com/manent/action/releases"
	released
	[ "${MANENT_ATTESTATION:-}" != require ] || attested
}

# arguments sets $words to what manent is called with.
arguments() {
	local file=${INPUT_CONFIG:-} more=() verb=${INPUT_COMMAND:-run}
	[[ $verb =~ ^[a-z]+(\ [a-z]+)*$ ]] || fail 64 "usage: command $(printf %q "$verb"), expected a verb such as run" "manent help lists them"
	if [ -n "${INPUT_ENVIRONMENT:-}" ]; then
		[[ $INPUT_ENVIRONMENT =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || fail 64 "usage: environment $(printf %q "$INPUT_ENVIRONMENT"), expected a name" "letters, digits, dot, _ and -"
		[ -n "$file" ] || fail 64 "usage: environment $INPUT_ENVIRONMENT without config" "set config to the folder of its file, such as envconfig/shop/web"
		file=${file%/}/$INPUT_ENVIRONMENT.yml
	fi
	read -r -a words <<<"$verb"
	[ -z "$file" ] || words+=("--config=$file")
	[ -z "${INPUT_VERSION:-}" ] || words+=("--version=$INPUT_VERSION")
	[ -z "${INPUT_UNTIL:-}" ] || words+=("--until=$INPUT_UNTIL")
	[ -z "${INPUT_STATE:-}" ] || words+=("--state=$INPUT_STATE")
	# No word is expanded, and none is empty.
	IFS=$' \t\r\n' read -r -d '' -a more <<<"${INPUT_ARGS:-}" || true
	[ "${#more[@]}" = 0 ] || words+=("${more[@]}")
}

# credentials hands the job's token on: to the API as GITHUB_TOKEN, to Git as a
# header for this server alone. The empty header takes away the one that a
# checkout may have left; GitHub refuses two. Who gives another one in the env
# of the step (GITHUB_TOKEN, MANENT_GIT_TOKEN) gets that.
credentials() {
	[ -n "${INPUT_TOKEN:-}" ] || return 0
	local count=${GIT_CONFIG_COUNT:-0} basic key
	[[ $count =~ ^(0|[1-9][0-9]{0,3})$ ]] || fail 64 "usage: GIT_CONFIG_COUNT is $(printf %q "$count"), expected a number from 0 to 9999" "git reads it"
	export GITHUB_TOKEN="${GITHUB_TOKEN:-$INPUT_TOKEN}"
	[ -z "${MANENT_GIT_TOKEN:-}" ] || return 0
	basic=$(printf 'x-access-token:%s' "$INPUT_TOKEN" | base64 | tr -d '\r\n')
	echo "::add-mask::$basic"
	key=http.${GITHUB_SERVER_URL:-https://github.com}/.extraheader
	export "GIT_CONFIG_KEY_$count=$key" "GIT_CONFIG_VALUE_$count="
	export "GIT_CONFIG_KEY_$((count + 1))=$key" "GIT_CONFIG_VALUE_$((count + 1))=Authorization: Basic $basic"
	export GIT_CONFIG_COUNT=$((count + 2))
}

arguments
bring
credentials
unset INPUT_COMMAND INPUT_CONFIG INPUT_ENVIRONMENT INPUT_VERSION INPUT_UNTIL INPUT_STATE INPUT_ARGS INPUT_MANENT_VERSION INPUT_BINARY_PATH INPUT_TOKEN
exec "$binary" "${words[@]}" ||
	fail 5 "could not tell: $(printf %q "$binary") could not be begun; nothing was touched" "see the message above: is it a program for this system?"
