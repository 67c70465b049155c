#!/bin/sh
# A directory into a sandbox, work on it there, the result back. The sandbox lives
# until it is killed, or until its time is up if this script is.
set -eu
work=$(mktemp -d)
mkdir "$work/in"
printf 'the quick brown fox\n' >"$work/in/one.txt"
printf 'jumps over the lazy dog\n' >"$work/in/two.txt"

id=$(hortus --quiet sandbox create --ttl 5m)
trap 'hortus --quiet sandbox kill "$id"; rm -rf "$work"' EXIT

hortus --quiet sandbox cp "$work/in" "$id:/workspace/in"
hortus --quiet sandbox exec "$id" -w /workspace -- sh -c '
	mkdir out
	for f in in/*.txt; do tr a-z A-Z <"$f" >"out/${f#in/}"; done
	cat in/*.txt | wc -w >out/words
'
hortus --quiet sandbox cp "$id:/workspace/out" "$work/out"

cat "$work/out/one.txt" "$work/out/two.txt"
echo "words: $(tr -d ' ' <"$work/out/words")"
