#!/bin/sh
# Many requests, one JSON document each. The document's own fields stand two
# spaces deep, one a line, so that sed can read them where there is no jq.
set -eu
doc=$(mktemp)
trap 'rm -f "$doc"' EXIT

field() { sed -n 's/^  "'"$1"'": "\{0,1\}\([^",]*\)"\{0,1\},\{0,1\}$/\1/p' "$doc"; }

verified=0 all=0
while read -r sentence; do
	all=$((all + 1))
	# 0 is verified, 3 is beyond the model; both are answers.
	code=0
	hortus run --quiet --json "$sentence" </dev/null >"$doc" || code=$?
	case $code in
	0) verified=$((verified + 1)) ;;
	1 | 3) ;;
	*) echo "hortus failed with $code" >&2 && exit 1 ;;
	esac
	echo "$(field outcome): $sentence"
done <<'SENTENCES'
print the first 5 prime numbers
Run this Python: print(6 * 7)
Fold a protein in seven dimensions and sell it
SENTENCES
echo "$verified of $all verified"
