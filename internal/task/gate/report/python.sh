#!/bin/sh
# Stands before python3 in a gate: "-m unittest" reports its tests.
keep=$PATH rest=
IFS=:
for d in $PATH; do
  [ "$d" = DIR/bin ] || rest=$rest${rest:+:}$d
done
unset IFS
PATH=$rest
real=$(command -v "${0##*/}") || exit 127
if [ "$1" = -m ] && [ "$2" = unittest ]; then
  shift 2
  mkdir "DIR/python-$$" && cp DIR/runner.py "DIR/python-$$/" # which removes itself
  exec "$real" "DIR/python-$$/runner.py" unittest "$@"
fi
[ "${HORTUS_GATE_SHIM-}" = $$ ] || PATH=$keep # it is a shim, which has found this file in PATH
export HORTUS_GATE_SHIM=$$
exec "$real" "$@"
