# Says whether a release could be put here, and changes nothing.
# $1 destination, $2 the program that restarts, "" for none that is here already.
# Prints "there", or "in" and the folder to make the destination in.
set -u
LC_ALL=C
export LC_ALL
fail() { printf '%s\n' "$2" >&2; exit "$1"; }
lacks=
for need in cat cmp find flock ln ls mkdir mv readlink rm sha256sum sort stat sync tail tar touch; do
	command -v "$need" >/dev/null 2>&1 || lacks="$lacks $need"
done
[ -z "$lacks" ] || fail 127 "not found:$lacks"
stat -c %f / >/dev/null 2>&1 || fail 127 "stat is not GNU's"
[ -z "$2" ] || command -v "$2" >/dev/null 2>&1 || fail 28 "the program that restarts, $2, is not found"
usable() {
	[ -d "$1" ] || fail 21 "$1 is there and no folder"
	[ -w "$1" ] && [ -x "$1" ] || fail 21 "$1: Permission denied"
}
there=$1
while [ ! -e "$there" ] && [ ! -h "$there" ]; do
	there=${there%/*}
	[ -n "$there" ] || there=/
done
usable "$there"
if [ "$there" = "$1" ]; then
	[ ! -e "$1/releases" ] || usable "$1/releases"
	[ -h "$1/current" ] || [ ! -e "$1/current" ] || fail 25 "$1/current is there and no symbolic link"
fi
if [ "$there" = "$1" ]; then echo there; else printf 'in %s\n' "$there"; fi
