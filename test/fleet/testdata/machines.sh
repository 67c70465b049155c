#!/bin/bash
# Types the commands of docs/fleet.md as somebody would on three clean machines, a, b and c, with a Postgres server that requires TLS, an S3 server, a code
# host and a laptop, and fails if something is not as the page says. TestMachines runs it.
#
#     bash test/fleet/testdata/machines.sh HORTUS VERSITYGW      # paths of the programs; bin/hortus is made by "make build"
#
# A machine is a set of namespaces (network, host name, processes, mounts) with a home directory, /etc/hortus, /var/lib/hortus and a /usr/local/bin with
# hortus and git, which is all that PATH has. Needed: root, and Debian's postgresql-15, git, python3, curl, openssl, busybox and iproute2. Everything ends with
# the script. KEEP=1 keeps the directory with logs.
set -u
BIN=$1 GW=$2 R=$(cd "$(dirname "$0")/../../.." && pwd)
NET=10.231.7 PG=/usr/lib/postgresql/15/bin
[ "$(id -u)" = 0 ] || { echo "run it as root" >&2; exit 1; }
W=$(mktemp -d /tmp/fleet-machines.XXXXXX)
chmod 711 "$W"
declare -A INIT IP
STEP=
die() {
	echo "FAILED at \"$STEP\": $*" >&2
	for m in a b c; do [ -f "$W/$m/serve.log" ] && { echo "--- end of the log of $m" >&2; tail -n 25 "$W/$m/serve.log" >&2; }; done
	exit 1
}
MADE=
[ -d /etc/hortus ] || { mkdir /etc/hortus; MADE=/etc/hortus; }
[ -d /var/lib/hortus ] || { mkdir -m 700 /var/lib/hortus; MADE="$MADE /var/lib/hortus"; }
cleanup() {
	local p
	for p in $(jobs -p); do kill -KILL "$p" 2>/dev/null; done
	wait 2>/dev/null
	[ -n "${KEEP:-}" ] && echo "logs are in $W" >&2 || rm -rf "$W"
	[ -z "$MADE" ] || rmdir $MADE 2>/dev/null
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# ---- machines ----

holder() { # NAME: the first process of a machine, with which all others end
	setpriv --pdeathsig KILL unshare --net --uts --mount --pid --fork --kill-child --mount-proc --propagation private \
		bash -c 'trap : TERM; while :; do sleep 3600 & wait $!; done' </dev/null >/dev/null 2>&1 &
	local p=$! c=
	for _ in $(seq 200); do
		c=$(cat "/proc/$p/task/$p/children" 2>/dev/null) c=${c%% *}
		[ -n "$c" ] && [ "$(cat "/proc/$c/comm" 2>/dev/null)" = bash ] && break
		sleep 0.05
	done
	[ -n "$c" ] || die "machine $1 does not start"
	INIT[$1]=$c
}
enter() { local m=$1; shift; nsenter -t "${INIT[$m]}" -m -u -n -p -- "$@"; }
machine() { # NAME NUMBER
	local m=$1 n=$2
	IP[$m]=$NET.$n
	holder "$m"
	mkdir -p "$W/$m"/{root,etc,lib,bin} && chmod 700 "$W/$m/lib"
	nsenter -t "${INIT[switch]}" -n ip link add "port$n" type veth peer name eth0 netns "${INIT[$m]}" &&
		nsenter -t "${INIT[switch]}" -n ip link set "port$n" master bridge up &&
		enter "$m" sh -ec "hostname $m; ip link set lo up; ip addr add ${IP[$m]}/24 dev eth0; ip link set eth0 up
			mount --bind $W/hosts /etc/hosts; mount --bind $W/cas.pem /etc/ssl/certs/ca-certificates.crt" || die "machine $m has no network"
}
node() { # NAME NUMBER: a machine for Hortus
	machine "$@"
	install -p -m 755 "$BIN" "$W/$1/bin/hortus" # the files of all machines are those of one image
	ln -s /usr/bin/git "$W/$1/bin/git"
	enter "$1" sh -ec "mount --bind $W/$1/root /root; mount --bind $W/$1/etc /etc/hortus; mount --bind $W/$1/lib /var/lib/hortus; mount --bind $W/$1/bin /usr/local/bin" || die "machine $1"
}

# ---- a terminal ----

# on MACHINE COMMAND types a command that must succeed; its output is in $out. fails is for one that must not, tries for either.
typed() {
	local m=$1 cmd=$2
	STEP="$m\$ $cmd"
	printf '%s$ %s\n' "$m" "$cmd"
	out=$(enter "$m" env -i HOME=/root PATH=/usr/local/bin TERM=dumb ${ENV[$m]:-} /bin/bash -c "$cmd" 2>&1 </dev/null)
	rc=$?
	[ -z "$out" ] || printf '%s\n' "$out"
}
declare -A ENV
on() { typed "$@"; [ $rc = 0 ] || die "exit code $rc"; }
fails() { typed "$@"; [ $rc != 0 ] || die "it succeeded, and should not"; }
want() { grep -qE -- "$1" <<<"$out" || die "the output has no \"$1\""; }
wantnot() { ! grep -qE -- "$1" <<<"$out" || die "the output has \"$1\""; }
note() { printf '\n# %s\n' "$*"; }
until_() { # SECONDS WHAT COMMAND...: waits for a condition
	local s=$1 what=$2 end=$((SECONDS + $1)); shift 2
	until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $end ] || die "not within $s seconds: $what"; sleep 0.3; done
}
quietly() { local m=$1; shift; enter "$m" env -i HOME=/root PATH=/usr/local/bin ${ENV[$m]:-} /bin/bash -c "$*" </dev/null 2>&1; }
# serve MACHINE COMMANDS types commands that end with hortus serve in a terminal of its own, and waits until it serves.
serve() {
	local m=$1 cmd=$2
	STEP="$m\$ $cmd"
	sed "s/^/$m\$ /" <<<"$cmd"
	: >"$W/$m/serve.log"
	enter "$m" env -i HOME=/root PATH=/usr/local/bin /bin/bash -c "$cmd" </dev/null >>"$W/$m/serve.log" 2>&1 &
	local job=$!
	for _ in $(seq 400); do
		grep -q "serving at" "$W/$m/serve.log" && break
		kill -0 $job 2>/dev/null || { cat "$W/$m/serve.log"; die "hortus serve ended"; }
		sleep 0.2
	done
	grep -q "serving at" "$W/$m/serve.log" || die "hortus serve does not serve"
	sleep 0.3
	cat "$W/$m/serve.log"
}

# ---- servers ----

holder switch
nsenter -t "${INIT[switch]}" -n sh -ec 'ip link set lo up; ip link add bridge type bridge; ip link set bridge up' || die "no bridge"
cat >"$W/hosts" <<END
127.0.0.1 localhost
$NET.11 a hortus.example.org
$NET.12 b hortus.example.org
$NET.13 c hortus.example.org
$NET.20 db.example.org s3.example.org git.example.org
END
(
	cd "$W" && openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj "/CN=Example authority" -addext basicConstraints=critical,CA:TRUE
	for name in servers:DNS:db.example.org,DNS:s3.example.org,DNS:git.example.org doors:DNS:hortus.example.org,DNS:a,DNS:b,DNS:c; do
		openssl req -newkey rsa:2048 -nodes -keyout "${name%%:*}.key" -out csr -subj "/CN=${name%%:*}"
		openssl x509 -req -in csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out "${name%%:*}.pem" -extfile <(echo "subjectAltName=${name#*:}")
	done
	chmod 644 ./*.pem
) >/dev/null 2>&1 || die "certificates"
cat /etc/ssl/certs/ca-certificates.crt "$W/ca.pem" >"$W/cas.pem"
machine db 20
machine laptop 30
mkdir "$W/laptop/home"; install -m 755 "$BIN" "$W/laptop/bin/hortus"
enter laptop sh -ec "mount --bind $W/laptop/home /root; mount --bind $W/laptop/bin /usr/local/bin"
node a 11; node b 12; node c 13
echo >"$W/c/bin/other" # but c has one more

mkdir -p "$W/pg" "$W/s3/layers" && chown postgres "$W/pg" && chmod 711 "$W/db"
install -o postgres -m 600 "$W/servers.key" "$W/pg-servers.key"
enter db setpriv --reuid=postgres --regid=postgres --clear-groups $PG/initdb -D "$W/pg/data" --auth=peer --encoding=UTF8 --locale=C --no-sync >/dev/null 2>"$W/initdb.log" || die "initdb: $(cat "$W/initdb.log")"
echo "hostssl all all $NET.0/24 scram-sha-256" >>"$W/pg/data/pg_hba.conf"
enter db setpriv --reuid=postgres --regid=postgres --clear-groups --pdeathsig QUIT $PG/postgres -D "$W/pg/data" -k "$W/pg" -c "listen_addresses=${IP[db]}" -c ssl=on -c "ssl_cert_file=$W/servers.pem" -c "ssl_key_file=$W/pg-servers.key" -c shared_buffers=32MB >"$W/pg.log" 2>&1 &
dba() { # COMMAND: typed by the administrator of the database
	STEP="db\$ $1"; printf 'db$ %s\n' "$1"
	out=$(enter db setpriv --reuid=postgres --regid=postgres --clear-groups env -i HOME="$W/pg" PGHOST="$W/pg" PATH=$PG:/usr/bin:/bin /bin/sh -c "$1" 2>&1 </dev/null) || die "$out"
	[ -z "$out" ] || printf '%s\n' "$out"
}
enter db "$GW" --port "${IP[db]}:9000" --cert "$W/servers.pem" --key "$W/servers.key" --access fleet --secret secret-of-the-archive posix "$W/s3" >"$W/s3.log" 2>&1 &
# The code host: git's own HTTP server, with one repository whose test fails.
cp -R "$R/examples/tasks/python" "$W/checkout"
mkdir "$W/git"
(cd "$W/checkout" && git init -q -b main && git -c user.name=Ada -c user.email=ada@example.org add -A && git -c user.name=Ada -c user.email=ada@example.org commit -qm "As it was found" && git clone -q --bare . "$W/git/grades.git") || die "the repository"
cat >"$W/git.py" <<'END'
import http.server, os, ssl, subprocess, sys
class Git(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"
    def do_GET(self):
        path, _, query = self.path.partition("?")
        env = {"PATH": "/usr/bin:/bin", "GIT_PROJECT_ROOT": sys.argv[1], "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command,
               "CONTENT_TYPE": self.headers.get("Content-Type", ""), "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "REMOTE_ADDR": "x",
               "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        out = subprocess.run(["/usr/bin/git", "http-backend"], env=env, input=body, capture_output=True).stdout
        head, _, rest = out.partition(b"\r\n\r\n")
        status = b"200 OK"
        lines = []
        for line in head.split(b"\r\n"):
            if line.startswith(b"Status: "):
                status = line[8:]
            else:
                lines.append(line)
        self.wfile.write(b"HTTP/1.0 " + status + b"\r\n" + b"\r\n".join(lines) + b"\r\nContent-Length: %d\r\n\r\n" % len(rest) + rest)
    do_POST = do_GET
s = http.server.ThreadingHTTPServer((sys.argv[2], 443), Git)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
c.load_cert_chain(sys.argv[3], sys.argv[4])
s.socket = c.wrap_socket(s.socket, server_side=True)
s.serve_forever()
END
enter db /usr/bin/python3 "$W/git.py" "$W/git" "${IP[db]}" "$W/servers.pem" "$W/servers.key" >"$W/git.log" 2>&1 &
until_ 90 "Postgres answers" enter db setpriv --reuid=postgres --regid=postgres --clear-groups $PG/psql -h "$W/pg" -d postgres -c "SELECT 1"
until_ 90 "the S3 server answers" enter laptop /usr/bin/curl -s https://s3.example.org:9000/
until_ 90 "the code host answers" enter laptop /usr/bin/curl -sf "https://git.example.org/grades.git/info/refs?service=git-upload-pack"
echo "# a, b and c: machines with hortus; db: Postgres, S3 and a code host; laptop: a client. $("$BIN" version)"

# ---- one machine, SQLite ----

door() { echo "hortus --host https://$1:7070"; }
field() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" | head -1; }
ready() { [ "$(quietly "$1" 'hortus fleet ls --json' | grep -c '"state": *"ready"')" = "$2" ]; }

for m in a b c; do
	mkdir -p "$W/$m/root/.aws"
	printf '[default]\naws_access_key_id = fleet\naws_secret_access_key = secret-of-the-archive\n' >"$W/$m/root/.aws/credentials"
	cp "$W/ca.pem" "$W/doors.pem" "$W/doors.key" "$W/$m/etc/"
	echo 'a secret of three machines' >"$W/$m/etc/postgres-password"
	# The machines share one kernel, so that the names of their control groups need different data directories.
	cat >"$W/$m/etc/config.toml" <<END
data-dir = "/var/lib/hortus/$m"

[daemon]
layer-archive = "s3://layers/fleet?endpoint=https://s3.example.org:9000"

[store]
password-file = "/etc/hortus/postgres-password"

[serve]
listen   = ":7070"
tls-cert = "/etc/hortus/doors.pem"
tls-key  = "/etc/hortus/doors.key"
END
	chmod 600 "$W/$m"/etc/* "$W/$m/root/.aws/credentials"
done

note "One machine, SQLite: README's first command, and a key for the laptop"
on a 'hortus run "Write a Python script that computes the mean and median of a list of numbers"'
want '^mean: 14.8'; want '^median: 13'; want 'verified: exit 0'
FIRST=$(sed -n 's/.*hortus task code \([0-9a-z]*\).*/\1/p' <<<"$out" | head -1)
on a 'hortus key create --role admin --name laptop'
ENV[laptop]="HORTUS_API_KEY=$(grep -o 'e2b_[0-9a-f]*' <<<"$out")"

note "One machine, Postgres (docs/operations.md#postgres)"
dba 'createuser hortus'
dba "psql -d postgres -qc \"ALTER ROLE hortus PASSWORD 'a secret of three machines'\"" # createuser --pwprompt, without a terminal
dba 'createdb --owner hortus hortus'
URL='postgres://hortus@db.example.org/hortus?sslrootcert=/etc/hortus/ca.pem'
on a 'hortus daemon stop'
on a "hortus store migrate --to '$URL'"
want 'rows are in Postgres'; want 'next: set store.url'
fails a 'hortus ps'
want 'set store.url, or HORTUS_STORE_URL'

# ---- docs/fleet.md, Set up ----

note "1. The first node"
serve a "export HORTUS_STORE_URL='$URL'
export HORTUS_FLEET_LISTEN=:7071
hortus serve"
note "2. What nodes trust each other by"
on a 'hortus fleet init'
want 'certificate authority'
note "3. The key of the database, and the other nodes"
for m in b c; do
	install -m 600 "$W/a/lib/a/hortus.db-key" "$W/$m/etc/db-key"
	serve $m "export HORTUS_STORE_URL='$URL' HORTUS_STORE_KEY_FILE=/etc/hortus/db-key
export HORTUS_FLEET_LISTEN=:7071
hortus serve"
done
note "4. The nodes"
until_ 90 "three nodes are ready" ready a 3
on a 'hortus fleet ls'
want '^a \* .*ready'; want '^b .*ready'; want '^c .*ready'
on a 'hortus doctor | /usr/bin/grep -E "^store|s3://"'
want 'store +Postgres'; want 'can be read and written'
on laptop '/usr/bin/curl -s https://hortus.example.org:7070/readyz'
want '"ready": *true'

# ---- Doors ----

note "A sandbox, a run and a session through each door"
on laptop "$(door c) task show $FIRST" # of the time with SQLite
want 'mean and median'
doors=(a b c a b)
for i in 0 1 2; do
	m=${doors[i]} next=${doors[i + 1]} last=${doors[i + 2]}
	on laptop "$(door $m) sandbox create --ttl 20m"
	id=$(tail -1 <<<"$out")
	on laptop "$(door $next) sandbox exec $id -- sh -c 'echo 42'"
	want '^42$'
	on laptop "$(door $last) sandbox show $id"
	want 'state +running'; want 'node +[abc]'
	on laptop "$(door $last) sandbox kill $id"
	on laptop "$(door $m) run 'print the first 20 prime numbers in JavaScript'"
	want '71'; want 'verified: exit 0'
	on laptop "$(door $m) session send grades-$m --repo https://git.example.org/grades.git 'Fix the failing test'"
	want 'verified'
	on laptop "$(door $next) session show grades-$m"
	want 'verified'
done
on laptop "$(door b) sandbox create --ttl 20m"
on laptop "$(door a) sandbox ls"
want 'NODE'
on b 'hortus df'
on b 'hortus daemon status'
want 'node b'

# ---- When a node ends ----

note "kill -9 of the daemon of a node with a task and a sandbox"
declare -A ON # a sandbox of each node
for _ in $(seq 40); do
	on laptop "$(door a) sandbox create --ttl 20m"
	id=$(tail -1 <<<"$out")
	m=$(quietly laptop "$(door a) sandbox show $id" | sed -n 's/^node *//p')
	ON[${m:-none}]=$id
	[ -n "${ON[a]:-}" ] && [ -n "${ON[b]:-}" ] && [ -n "${ON[c]:-}" ] && break
done
on laptop "$(door a) run --detach --timeout 2m 'Run this Python: import time; print(\"begun\", flush=True); time.sleep(25); print(6 * 7)'"
TASK=$(grep -oE '\bt[0-9a-z]{19}\b' <<<"$out" | head -1)
where() { quietly laptop "$(door a) sandbox ls --json" | tr -d '\n ' | sed 's/},{/}\n{/g' | grep "$TASK" | field node; }
placed() { [ -n "$(where)" ]; }
until_ 90 "the task runs in a sandbox" placed
DEAD=$(where)
for m in a b c; do [ $m = "$DEAD" ] || ALIVE=$m; done
LOST=${ON[$DEAD]:-}
[ -n "$LOST" ] || die "no sandbox was placed on node $DEAD"
on $DEAD 'hortus daemon status'
pid=$(grep -o 'pid [0-9]*' <<<"$out" | cut -d' ' -f2)
printf '%s$ kill -9 %s\n' $DEAD $pid
began=$SECONDS
enter $DEAD kill -9 $pid || die "no process $pid"
on laptop "$(door $ALIVE) task watch $TASK"
want '^42$'; want 'verified: exit 0'
echo "# $((SECONDS - began)) s after the kill"
on laptop "$(door $ALIVE) fleet ls"
want "^$DEAD .*gone"
on laptop "$(door $ALIVE) sandbox show $LOST"
want "state +lost"; want "node $DEAD ended"
on laptop "$(door $ALIVE) workspace ls"
note "It joins again with what is on its disk"
K=; [ $DEAD = a ] || K=' HORTUS_STORE_KEY_FILE=/etc/hortus/db-key'
serve $DEAD "export HORTUS_STORE_URL='$URL'$K
export HORTUS_FLEET_LISTEN=:7071
hortus serve"
until_ 90 "three nodes are ready" ready a 3
on laptop "$(door $ALIVE) fleet ls"

# ---- Drain and remove a node ----

note "A drain moves sandboxes with their memory: one of an image to any machine, one of the template host to one with the same files"
mkdir -p "$W/image/root/bin" "$W/image/root/tmp"
cp /bin/busybox "$W/image/root/bin/" || die "no /bin/busybox: apt-get install busybox"
for p in sh sleep cat echo kill; do ln -s busybox "$W/image/root/bin/$p"; done
tar -C "$W/image/root" --sort=name --mtime=@0 -cf "$W/image/layer.tar" .
echo '[{"Config": "config.json", "RepoTags": ["small:1"], "Layers": ["layer.tar"]}]' >"$W/image/manifest.json"
printf '{"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/bin"]}, "rootfs": {"type": "layers", "diff_ids": ["sha256:%s"]}}' "$(sha256sum <"$W/image/layer.tar" | cut -d' ' -f1)" >"$W/image/config.json"
for m in a b c; do
	tar -C "$W/image" -cf "$W/$m/root/small.tar" manifest.json config.json layer.tar
	on $m 'hortus template create small --from-image /root/small.tar'
done
onnode() { # NODE FLAGS: a sandbox there, in $id
	for _ in $(seq 40); do
		typed laptop "$(door a) sandbox create --ttl 20m $2"
		id=$(tail -1 <<<"$out")
		quietly laptop "$(door a) sandbox show $id" | grep -qE "node +$1" && return
		quietly laptop "$(door a) sandbox kill $id" >/dev/null
	done
	die "no sandbox is placed on $1"
}
onnode b "--template small"; MOVED=$id
onnode b ""; ALIKE=$id
onnode c ""; STAYS=$id
for id in $MOVED $ALIKE; do
	on laptop "$(door a) sandbox exec $id -- sh -c 'echo kept >/tmp/file; (x=41; trap \"x=\\\$((x+1)); echo \\\$x >/tmp/x\" USR1; while :; do sleep 1; done) >/dev/null 2>&1 & echo \$! >/tmp/pid'"
done
on laptop "$(door c) fleet drain b"
want "$MOVED +moved to [ac], and runs there"
want "$ALIKE +moved to a, and runs there"
for id in $MOVED $ALIKE; do
	on laptop "$(door b) sandbox exec $id -- sh -c 'kill -USR1 \$(cat /tmp/pid); sleep 2; cat /tmp/x /tmp/file'"
	want '^42$'; want '^kept$'
done
on laptop "$(door b) sandbox show $MOVED"
want 'node +[ac]'
on laptop "$(door c) fleet drain b --force --wait 1m"
want 'nothing is left on b: stop its daemon, then: hortus fleet rm b'
on b 'hortus daemon stop'
on laptop "$(door c) fleet rm b"
want 'removed b'
on laptop "$(door c) fleet ls"
wantnot '^b '

note "From machines to Kubernetes: the machines are stopped"
on laptop "$(door a) fleet drain c"
want "$STAYS +stays: .*other files in its template host"
want 'still on c: [1-9]'
fails laptop "$(door a) fleet rm c"
want 'still has [1-9][0-9]* sandbox'
on laptop "$(door a) fleet drain c --force --wait 1m"
on c 'hortus daemon stop'
on laptop "$(door a) sandbox exec $MOVED -- cat /tmp/x"
want '^42$'
fails laptop "$(door a) fleet drain a --force --wait 1m" # sessions are left: no other node is ready
want 'still on a: [1-3] sessions?$'; want 'another node continues what is stored of them'; wantnot 'still on a: .*sandbox'
on a 'hortus daemon stop'
echo
echo "# All commands of docs/fleet.md did what the page says; $SECONDS s. These of the page were not run:"
grep -n 'go test' "$R/docs/fleet.md" | sed 's/^/#   /'
