#!/bin/sh
# Code that does not behave. The exit codes are those of a shell: 124 for a timeout,
# 137 for a kill; 128 and the signal's number in general.
set -u

try() {
	code=0
	hortus --quiet sandbox run "$@" >/dev/null 2>&1 || code=$?
	echo "$code"
}

echo "memory: $(try --memory 64M -- python3 -c 'x = bytearray(1 << 30)')"
echo "time: $(try --timeout 1s -- sleep 60)"
echo "its own code: $(try -- sh -c 'exit 7')"
echo "no such command: $(try -- no-such-command)"
echo "network: $(try -- python3 -c 'import socket; socket.create_connection(("example.org", 80), 2)')"
