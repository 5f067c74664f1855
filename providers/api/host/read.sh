# Reads a managed file. $1: its path.
# Prints "done DIGEST" or "unfinished DIGEST", then the content.
set -u
LC_ALL=C
export LC_ALL
fail() { printf '%s\n' "$2" >&2; exit "$1"; }
file=$(readlink -f -- "$1") && dir=$(dirname -- "$file") && [ -d "$dir" ] || fail 20 "no such directory"
base=$(basename -- "$file")
exec 9<"$dir" || exit 21
flock -s -w 5 9
case $? in 0) ;; 1) fail 22 "somebody else holds the lock of $dir" ;; *) exit 21 ;; esac
state=done
if [ -e "$dir/.$base.old" ] || [ -e "$dir/.$base.none" ]; then state=unfinished; fi
[ -e "$file" ] || { echo "$state absent"; exit 0; }
sum=$(sha256sum <"$file") || exit 21
echo "$state ${sum%% *}"
exec cat -- "$file"
