# Says whether a container could be run from here, and changes nothing.
set -u
for need in cat mktemp rm sha256sum; do
	command -v "$need" >/dev/null 2>&1 || { echo "not found: $need" >&2; exit 127; }
done
folder=${TMPDIR:-/tmp}
[ -d "$folder" ] && [ -w "$folder" ] || { echo "$folder, for temporary files, cannot be written" >&2; exit 21; }
