#!/bin/sh
# Stands before node in a gate: hook.cjs is loaded also if NODE_OPTIONS was set anew, and "node --test" reports its tests.
keep=$PATH rest=
IFS=:
for d in $PATH; do
  [ "$d" = DIR/bin ] || rest=$rest${rest:+:}$d
done
unset IFS
PATH=$rest
real=$(command -v node) || exit 127
[ "${HORTUS_GATE_SHIM-}" = $$ ] || PATH=$keep # it is a shim, which has found this file in PATH
export HORTUS_GATE_SHIM=$$
[ -z "${HORTUS_GATE_RUNNER-}" ] || exec "$real" "$@" # started by tests
test= own=
for a in "$@"; do
  case $a in
  --test) test=1 ;;
  --test-reporter*) own=1 ;;
  esac
done
if [ -n "$test" ] && [ -z "$own" ]; then
  cp DIR/reporter.mjs "DIR/reporter-$$.mjs" # which removes itself
  export HORTUS_GATE_RUNNER=node NODE_OPTIONS="--require=DIR/guard.cjs${NODE_OPTIONS:+ $NODE_OPTIONS}"
  exec "$real" --test-reporter=spec --test-reporter-destination=stdout "--test-reporter=DIR/reporter-$$.mjs" "--test-reporter-destination=DIR/out/node-$$.report" "$@"
fi
case ${NODE_OPTIONS-} in
*DIR/hook.cjs*) ;;
*) export NODE_OPTIONS="--require=DIR/hook.cjs${NODE_OPTIONS:+ $NODE_OPTIONS}" ;;
esac
exec "$real" "$@"
