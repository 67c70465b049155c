# The offline model tries edits in copies of this tree. Nothing here is changed.
gate=@GATE@
quick=@QUICK@ # what of the gate fails, or nothing
limit=@LIMIT@
busy=unlimited
work=$(mktemp -d "${TMPDIR:-/tmp}/offline.XXXXXX") || exit 1
trap 'chmod -R u+w "$work" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
export PYTHONDONTWRITEBYTECODE=1 PYTHONPYCACHEPREFIX="$work/pyc" GOFLAGS="${GOFLAGS:-} -vet=off -timeout=60s"
shell=$(command -v bash || command -v sh)
begun=$(date +%s)
lanes=$(nproc 2>/dev/null || echo 1)
[ "$lanes" -le 4 ] || lanes=4
workspace=@WORKSPACE@
view=@VIEW@ # a read-only mount of the workspace, where there is one
nl='
'

# What was installed is not copied if there is a read-only mount of it: a copy has links
# to that mount. Nothing that follows them can write.
linked=$nl
choose() {
	here=${PWD#"$workspace"}
	case $PWD/ in "$workspace"/*) ;; *) view= ;; esac
	[ -n "$view" ] && grep -q "^[^ ]* [^ ]* [^ ]* [^ ]* $view ro[, ]" /proc/self/mountinfo || view=
	find . -name .git -prune -o -type d \( -name node_modules -o -name .venv -o -name venv \) -prune -print >"$work/installed"
	while IFS= read -r d; do
		[ "$(find "$d" 2>/dev/null | head -n @FEW@ | wc -l)" -ge @FEW@ ] || continue
		if [ -n "$view" ] && [ "$(ls -A "$d")" = "$(ls -A "$view$here/${d#./}")" ]; then
			linked=$linked$d$nl
		else
			lanes=1 # one copy of it
		fi
	done <"$work/installed"
}

copy() { # from, to
	mkdir "$2" || return 1
	for f in "$1"/.[!.]* "$1"/..?* "$1"/*; do
		[ -e "$f" ] || [ -L "$f" ] || continue
		[ "$f" = ./.git ] && [ "$(du -sk .git | cut -f1)" -gt 65536 ] && continue
		case $linked in
		*"$nl$f$nl"*) link "$f" "$2/${f##*/}" || return 1 ;;
		*"$nl$f/"*) copy "$f" "$2/${f##*/}" || return 1 ;;
		*) cp -a "$f" "$2/" || return 1 ;;
		esac
	done
}

# The directory itself is the copy's, and so are its files, its links (which may lead to
# packages of this tree) and its programs. Caches are left out: a gate makes them again.
link() { # from, to
	mkdir "$2" || return 1
	find "$view$here/${1#./}" -mindepth 1 -maxdepth 1 -type d ! -name .bin ! -name '@*' ! -name .cache ! -name '.vite*' \
		-exec sh -c 'to=$1; shift; ln -s "$@" "$to/"' sh "$2" {} + || return 1
	find "$1" -mindepth 1 -maxdepth 1 \( ! -type d -o -name .bin \) \
		-exec sh -c 'to=$1; shift; cp -a "$@" "$to/"' sh "$2" {} + || return 1
	for e in "$1"/@*; do
		if [ -d "$e" ] && [ ! -L "$e" ]; then link "$e" "$2/${e##*/}" || return 1; fi
	done
}

# What runs in circles uses the processor; what waits may wait for a host that is busy
# with others. So each process of the gate has a bound on the first, and the gate a
# wider one on the time.
bounded() { # a command
	set -- "ulimit -t $busy 2>/dev/null
$1
exit \$?"
	if command -v timeout >/dev/null; then
		timeout -k 2 "$limit" "$shell" -c "$1" >"$work/$lane.out" 2>&1 </dev/null
	else
		"$shell" -c "$1" >"$work/$lane.out" 2>&1 </dev/null
	fi
	code=$?
}

check() { # in a copy: how the gate ends
	code=0
	[ -z "$quick" ] || bounded "$quick"
	[ "$code" -ne 0 ] || bounded "$gate"
	failing=$(grep -cE '^(FAIL|ERROR): |^FAILED |^ *not ok |^ *--- FAIL: |^ *✖ ' "$work/$lane.out")
	ran=$(grep -oE 'Ran [0-9]+ test|# tests [0-9]+|tests [0-9]+$|[0-9]+ passed' "$work/$lane.out" | tail -n 1 | tr -dc 0-9)
	[ -n "$ran" ] || ran=$(grep -cE '^ok[[:space:]]' "$work/$lane.out")
	if grep -qE '\[build failed\]|\[setup failed\]|^panic: ' "$work/$lane.out"; then ran=-1; fi
	if grep -qE "signal: '?(killed|SIGKILL|SIGXCPU)" "$work/$lane.out"; then ran=-2; fi
	case $code in 124 | 137 | 152) ran=-2 ;; esac
}

try() { # number, path, first and last line, and what takes their place
	n=$1 file=$2 from=$3 to=$4
	shift 4
	[ $((n % lanes)) -eq "$lane" ] && [ ! -e "$work/stop.$lane" ] || return 0
	for p in "$work"/pass.*; do
		if [ -e "$p" ] && [ "${p##*.}" -lt "$n" ]; then return 0; fi
	done
	if [ $(($(date +%s) - started)) -ge @SECONDS@ ]; then
		echo "$n" >"$work/stop.$lane"
		return 0
	fi
	[ -f "$file" ] && [ ! -L "$file" ] || return 0
	cp -p "$file" "$work/$lane.kept"
	{
		head -n $((from - 1)) "$work/$lane.kept"
		[ $# -eq 0 ] || printf '%s\n' "$@"
		tail -n +$((to + 1)) "$work/$lane.kept"
	} >"$file"
	check
	cat "$work/$lane.kept" >"$file"
	[ "$code" -ne 0 ] || : >"$work/pass.$n"
	echo "edit $n: exit $code, failing $failing, ran $ran" >>"$work/results.$lane"
}

edits() {
	:
@EDITS@
}

choose
lane=0
while [ "$lane" -lt "$lanes" ]; do
	copy . "$work/tree.$lane" || exit 1
	lane=$((lane + 1))
done
lane=0
started=$(date +%s)
if [ "$limit" -eq 0 ]; then
	limit=120
	cd "$work/tree.0" || exit 1
	check
	busy=$(($(date +%s) - started))
	times >"$work/times"
	spent=$(($(sed -n '2s/^\([0-9]*\)m\([0-9]*\)[^ ]* \([0-9]*\)m\([0-9]*\).*/\1*60+\2+\3*60+\4/p' "$work/times") + 1))
	[ "$spent" -le "$busy" ] || busy=$spent
	busy=$((3 * busy + 5))
	limit=$((4 * busy))
	echo "baseline: exit $code, failing $failing, ran $ran"
else
	echo "baseline: exit 124, failing 0, ran -2"
	code=124
fi
if [ "$code" -ne 0 ]; then
	while [ "$lane" -lt "$lanes" ]; do
		(cd "$work/tree.$lane" && edits) &
		lane=$((lane + 1))
	done
	wait
fi
# What other lanes tried after the first edit that passes depends on how fast they were.
first=$(ls "$work" | sed -n 's/^pass\.//p' | sort -n | head -n 1)
touch "$work/results.none"
cat "$work"/results.* | sort -t ' ' -k 2 -n | sed -e "${first:+/^edit $first:/q}" >"$work/said"
cat "$work/said"
next=$(cat "$work"/stop.* 2>/dev/null | sort -n | head -n 1)
echo "tried $(grep -c . "$work/said"), next ${next:-0}, seconds $(($(date +%s) - begun))"
exit 0
