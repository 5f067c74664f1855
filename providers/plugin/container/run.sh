# Runs a container with the environment that is on standard input, in a file
# that only the user can read and that is gone afterwards.
# $1 SHA-256 of the input, $2 engine; then the arguments of run.
set -u
LC_ALL=C
export LC_ALL
umask 077
file=$(mktemp) || exit 21
trap 'rm -f -- "$file"' EXIT
trap 'exit 27' HUP INT TERM PIPE
cat >"$file" || exit 21
sum=$(sha256sum <"$file") || exit 21
[ "${sum%% *}" = "$1" ] || { echo "the environment arrived incomplete" >&2; exit 23; }
engine=$2
shift 2
trap : HUP INT TERM PIPE # from here on to the end
"$engine" run --detach --env-file "$file" "$@" </dev/null
