# Says how far a release has got. $1 destination, $2 version, $3 digest ("any"
# for whatever the release has), $4 step.
# Prints one word, then the name of the release that is current:
# absent, copied, switched (not known to be restarted), restarted, done (by
# this step).
set -u
LC_ALL=C
export LC_ALL
fail() { printf '%s\n' "$2" >&2; exit "$1"; }
[ -e "$1" ] || { echo "absent"; exit 0; }
cd -- "$1" || exit 21
current=$(readlink -- current) || current=
case $current in releases/*) current=${current#releases/} ;; *) current= ;; esac
mark=
if [ -d "releases/$2" ] && [ -e "releases/.$2.digest" ]; then
	mark=$(cat -- "releases/.$2.digest") || exit 21
fi
[ "$3" = any ] || [ "$mark" = "$3" ] || mark=
[ -n "$mark" ] || { echo "absent $current"; exit 0; }
[ "$current" = "$2" ] || { echo "copied $current"; exit 0; }
last=
[ ! -e .manent ] || last=$(cat -- .manent) || exit 21
case $last in
"$2 $mark $4") echo "done $current" ;;
"$2 $mark "*) echo "restarted $current" ;;
*) echo "switched $current" ;;
esac
