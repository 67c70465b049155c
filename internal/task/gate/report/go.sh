#!/bin/sh
# Stands before the go command in a gate: "go test" reports its tests, if the gate's output is where it prints.
keep=$PATH rest=
IFS=:
for d in $PATH; do
  [ "$d" = DIR/bin ] || rest=$rest${rest:+:}$d
done
unset IFS
PATH=$rest
real=$(command -v go) || exit 127
if [ "$1" = test ]; then
  plain=1
  [ -z "${HORTUS_GATE_OUT-}" ] || [ "$(readlink "/proc/$$/fd/1")" != "$HORTUS_GATE_OUT" ] || plain=
  for a in "$@"; do
    case $a in
    -json | -json=* | --json | --json=* | -c | -n | -list | -list=* | -bench | -bench=*) plain=1 ;;
    -args | --args) break ;;
    esac
  done
  if [ -z "$plain" ]; then
    shift
    exec "$real" test -json "$@" # tests that start the go command find the real one
  fi
fi
[ "${HORTUS_GATE_SHIM-}" = $$ ] || PATH=$keep # it is a shim, which has found this file in PATH
export HORTUS_GATE_SHIM=$$
exec "$real" "$@"
