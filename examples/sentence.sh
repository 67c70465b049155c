#!/bin/sh
# A sentence becomes a program that really ran. The program's output is stdout;
# what happened on the way is stderr. The exit code is 0 only for a verified
# program, and its files are there to keep.
set -eu
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

if primes=$(hortus run --quiet --out "$out" "print the first 10 prime numbers"); then
	echo "verified: $primes"
	echo "program: $(ls "$out")"
else
	echo "not verified: exit code $?" >&2
	exit 1
fi
