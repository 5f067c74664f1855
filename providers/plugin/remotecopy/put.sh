# Puts a release beside the others. Standard input is a tar archive with
# "inventory" and the folder "files". Nothing is in its place before every
# file was compared with the inventory.
# $1 destination, $2 version, $3 SHA-256 of the inventory.
set -u
LC_ALL=C
export LC_ALL
umask 022
fail() { printf '%s\n' "$2" >&2; exit "$1"; }
keep() { sync -- "$@" 2>/dev/null || sync; }
inventory() {
	{
		find . -type f -exec sha256sum -- {} +
		find . ! -name . -exec stat -c '%f %n' -- {} +
	} | sort
}
mkdir -p -- "$1/releases" && cd -- "$1/releases" || exit 21
new=.$2.new.$$
trap 'rm -rf -- "$new"' EXIT
trap 'exit 27' HUP INT TERM PIPE
rm -rf -- "$new" && mkdir -m 700 -- "$new" && tar -xpof - -C "$new" || exit 21
sum=$(sha256sum <"$new/inventory") || exit 23
[ "${sum%% *}" = "$3" ] || fail 23 "the list of files arrived incomplete"
(cd -- "$new/files" && inventory) | cmp -s - "$new/inventory" || fail 23 "the files are not what was sent"
chmod 755 -- "$new/files" || exit 21
sync -f -- "$new/files" 2>/dev/null || sync
exec 9<. || exit 21
flock -w 5 9
case $? in 0) ;; 1) fail 22 "somebody else holds the lock of $1/releases" ;; *) exit 21 ;; esac

# From here on signals are noted, not obeyed.
trap : HUP INT TERM PIPE
if [ -d "$2" ] && [ "$(cat -- ".$2.digest" 2>/dev/null)" = "$3" ]; then exit 0; fi
for old in ."$2".new.*; do
	[ "$old" = "$new" ] || rm -rf -- "$old" # of who was killed
done
rm -f -- ".$2.digest" || exit 21
if [ -e "$2" ]; then mv -- "$2" "$new/old" || exit 21; fi
mv -- "$new/files" "$2" && printf '%s\n' "$3" >"$new/digest" && keep "$new/digest" &&
	mv -- "$new/digest" ".$2.digest" && keep . || exit 21
