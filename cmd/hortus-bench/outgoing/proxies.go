package outgoing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"hortus.dev/cmd/hortus-bench/load"
	"hortus.dev/cmd/hortus-bench/program"
)

// proxyRival is a proxy that carries outgoing connections.
type proxyRival struct {
	name, note, missing string
	// start starts it in a directory of its own. ca is a file with the server's authority.
	start func(ctx context.Context, dir, ca string, port int) (pid int, end func(), err error)
}

var squid = proxyRival{
	name: "squid", note: "CONNECT to an address, from a process on the host; it resolves and checks no name and does not look into the connection",
	missing: "not installed; apt-get install squid",
	start: func(ctx context.Context, dir, _ string, port int) (int, func(), error) {
		path, err := program.Find("squid", "/usr/sbin/squid")
		if err != nil {
			return 0, nil, err
		}
		// Its own user must be able to write there.
		if err := os.Chmod(dir, 0o777); err != nil {
			return 0, nil, err
		}
		file := filepath.Join(dir, "squid.conf")
		text := fmt.Sprintf(`http_port 127.0.0.1:%d
http_access allow all
cache deny all
pid_filename none
cache_log %[2]s/cache.log
access_log stdio:%[2]s/access.log
coredump_dir none
pinger_enable off
netdb_filename none
max_filedescriptors 8192
shutdown_lifetime 0 seconds
visible_hostname localhost
`, port, dir)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return 0, nil, err
		}
		return daemonProcess(ctx, port, path, "-N", "-f", file)
	},
}

var mitmproxy = proxyRival{
	name: "mitmproxy", note: "mitmdump, from a process on the host; it terminates TLS, verifies the server and streams bodies",
	missing: "not installed; apt-get install mitmproxy",
	start: func(ctx context.Context, dir, ca string, port int) (int, func(), error) {
		path, err := program.Find("mitmdump")
		if err != nil {
			return 0, nil, err
		}
		return daemonProcess(ctx, port, path, "--quiet", "--listen-host", "127.0.0.1", "--listen-port", fmt.Sprint(port),
			"--set", "confdir="+dir, "--set", "ssl_verify_upstream_trusted_ca="+ca, "--set", "stream_large_bodies=1m")
	},
}

// proxies starts the rivals. Those that are absent are lanes without a client and a note that
// says why.
func proxies(ctx context.Context, dir, ca string, ask asker, to int) (lanes []*lane, end func()) {
	var ends []func()
	end = func() {
		for _, e := range slices.Backward(ends) {
			e()
		}
	}
	for _, v := range []proxyRival{squid, mitmproxy} {
		l := &lane{name: v.name, note: v.note, against: laneDirect, job: load.Job{To: at("127.0.0.1", to), Name: nameTerminated}}
		lanes = append(lanes, l)
		own := filepath.Join(dir, v.name)
		port, err := freePort()
		if err == nil {
			err = os.Mkdir(own, 0o755)
		}
		var e func()
		var pid int
		if err == nil {
			pid, e, err = v.start(ctx, own, ca, port)
		}
		switch {
		case errors.Is(err, program.ErrMissing):
			l.note = v.missing
		case err != nil:
			l.note = err.Error()
		default:
			ends = append(ends, e)
			l.cpu = processCPU(pid)
			l.ask, l.job.Proxy = ask, at("127.0.0.1", port)
		}
	}
	return lanes, end
}
