# The offline model runs the gate again and records which lines the failing tests
# execute. Nothing here is changed.
work=$(mktemp -d "${TMPDIR:-/tmp}/offline.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
cat >"$work/sitecustomize.py" <<'HORTUS_TRACE_END'
@PYTHON@
HORTUS_TRACE_END
cat >"$work/trace.cjs" <<'HORTUS_TRACE_END'
@SCRIPT@
HORTUS_TRACE_END
(
	export HORTUS_TRACE="$work/out" HORTUS_TRACE_FAILED=@FAILED@ PYTHONDONTWRITEBYTECODE=1
	export PYTHONPATH="$work${PYTHONPATH:+:$PYTHONPATH}" NODE_OPTIONS="--require=$work/trace.cjs ${NODE_OPTIONS:-}"
	timeout -k 2 @SECONDS@ sh -c @GATE@ >/dev/null 2>&1 </dev/null
)
touch "$work/out.none"
cat "$work"/out.* | awk '
	$1 == "total" { failing += $2; passing += $3 }
	$1 == "line" && NF == 5 { key = $5 " " $4; f[key] += $2; p[key] += $3 }
	END {
		print "0 tests", failing + 0, passing + 0
		for (key in f) if (f[key] > 0) print key, f[key], p[key]
	}' | sort -k 1,1 -k 2,2n | awk '
	function flush() { if (path != "") { print "lines", path, from, to, f, p; n++ } }
	$2 == "tests" { print "tests", $3, $4; next }
	$1 == path && $2 == to + 1 && $3 == f && $4 == p { to = $2; next }
	{ flush(); path = $1; from = $2; to = $2; f = $3; p = $4 }
	END { flush(); print "traced", n + 0 }'
exit 0
