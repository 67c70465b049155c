#!/bin/sh
# Starts a test program of Go under the name of an ordinary one.
program=$1
shift
cp "$program" "${program%/*}/server" && exec "${program%/*}/server" "$@"
