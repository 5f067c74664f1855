# Replaces a managed file by what is on standard input, on condition that it
# still is what the caller read, and proves the new content or puts the old
# back. Everything from the comparison on is one critical section: it runs to
# its end when the connection to the caller is lost.
#
# $1 path  $2 digest expected, "absent" or "any"  $3 digest of the input
# $4 command that checks, "" for none  $5 command that applies, "" for none
#
# While a replacement is unfinished, the last content known to be good is in
# .NAME.old (or .NAME.none says that there was no file). Who is killed leaves
# it there: the next one keeps it, as the content in place was never proven.
set -u
LC_ALL=C
export LC_ALL
mask=$(umask)
umask 077
fail() { printf '%s\n' "$2" >&2; exit "$1"; }
digest() { if [ -e "$1" ]; then sum=$(sha256sum <"$1") && echo "${sum%% *}"; else echo absent; fi; }
keep() { sync -- "$@" 2>/dev/null || sync; }
run() { [ -z "$1" ] || (umask "$mask" && exec sh -c "$1" 2>&1 9<&-); }
restore() {
	if [ -e "$old" ]; then mv -f -- "$old" "$file"; else rm -f -- "$file"; fi &&
		rm -f -- "$none" && keep "$dir" || fail 28 "the old content could not be put back: it is in $old"
}

file=$(readlink -f -- "$1") && dir=$(dirname -- "$file") && [ -d "$dir" ] || fail 20 "no such directory"
base=$(basename -- "$file")
new=$dir/.$base.new.$$ old=$dir/.$base.old none=$dir/.$base.none
trap 'rm -f -- "$new" "$new.in"' EXIT
trap 'exit 27' HUP INT TERM PIPE
cat >"$new.in" || exit 21
[ "$(digest "$new.in")" = "$3" ] || fail 23 "the content arrived incomplete"
exec 9<"$dir" || exit 21
flock -w 5 9
case $? in 0) ;; 1) fail 22 "somebody else holds the lock of $dir" ;; *) exit 21 ;; esac

# From here on signals are noted, not obeyed; nothing is printed before the end.
trap : HUP INT TERM PIPE
now=$(digest "$file") || exit 21
[ "$2" = any ] || [ "$2" = "$now" ] || fail 24 "the file is not what was read before"
if [ "$now" != absent ]; then # a copy first, for owner and mode
	cp -p -- "$file" "$new" && cat -- "$new.in" >"$new" || exit 21
	[ -e "$old" ] || [ -e "$none" ] || { cp -p -- "$file" "$new.in" && keep "$new.in" && mv -- "$new.in" "$old"; } || exit 21
else
	chmod 644 -- "$new.in" && mv -- "$new.in" "$new" && { [ -e "$old" ] || : >"$none"; } || exit 21
fi
keep "$new" && mv -f -- "$new" "$file" && keep "$dir" || exit 21
out=$(run "$4") || { restore; fail 25 "$out"; }
out=$(run "$5") || { restore; run "$5" >/dev/null; fail 26 "$out"; }
rm -f -- "$old" "$none"
