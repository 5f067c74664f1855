# Makes a release the current one, restarts, and removes old releases.
# $1 destination, $2 version, $3 digest, $4 step, $5 releases to keep; then the
# program that restarts with its arguments, or nothing. Its output is printed.
set -u
LC_ALL=C
export LC_ALL
mask=$(umask)
umask 022
fail() { printf '%s\n' "$2" >&2; exit "$1"; }
keep() { sync -- "$@" 2>/dev/null || sync; }
dest=$1 version=$2 digest=$3 step=$4 most=$5
shift 5
cd -- "$dest" || exit 21
exec 9<. || exit 21
flock -w 5 9
case $? in 0) ;; 1) fail 22 "somebody else holds the lock of $dest" ;; *) exit 21 ;; esac
[ -d "releases/$version" ] && [ "$(cat -- "releases/.$version.digest" 2>/dev/null)" = "$digest" ] ||
	fail 22 "release $version is not there any more"
[ -h current ] || [ ! -e current ] || fail 25 "$dest/current is there and no symbolic link"
rm -f -- .current.new .manent && ln -s -- "releases/$version" .current.new &&
	mv -T -- .current.new current && keep . || exit 21
if [ $# -gt 0 ]; then
	# Into a file: what the program leaves running may hold it for ever.
	(umask "$mask" && exec "$@") >.output 2>&1 </dev/null 9<&-
	code=$?
	tail -c 60000 -- .output
	rm -f -- .output
	[ $code -eq 0 ] || fail 26 "exit code $code"
fi
printf '%s\n' "$version $digest $step" >.manent.new && keep .manent.new && mv -- .manent.new .manent && keep . || exit 21
touch -- "releases/.$version.digest"
rm -rf -- releases/."$version".new.* # of who was killed
cd -- releases || exit 0
count=0
for mark in $(ls -1t -- .*.digest); do
	name=${mark#.} name=${name%.digest}
	count=$((count + 1))
	[ $count -gt "$most" ] && [ "$name" != "$version" ] || continue
	rm -f -- "$mark" && rm -rf -- "$name" || echo "the old release $name could not be removed"
done
