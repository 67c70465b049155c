#!/bin/sh
# One step of a pipeline in a sandbox: the code sees its stdin and nothing else of
# this machine, no file, no network, no variable.
set -eu

printf '%s\n' 'name,hours' 'ada,7' 'grace,9' 'alan,5' |
	hortus sandbox run --memory 128M --timeout 30s -- python3 -c '
import csv, sys
rows = list(csv.DictReader(sys.stdin))
for r in sorted(rows, key=lambda r: -int(r["hours"])):
    print(r["name"], r["hours"], sep="\t")
print("total", sum(int(r["hours"]) for r in rows), sep="\t")
' |
	tr '\t' ' '
