//go:build linux

package guest

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// escape tries to mount a cgroup hierarchy in a new user namespace, in which a process has
// every capability, without executing a program in between.
const escape = `perl -e '
my ($unshare, $mount) = @ARGV; my ($t, $p) = ("cgroup2", "/tmp/escape"); mkdir $p;
print "namespace\n" if syscall($unshare, 0x10020000) == 0;
print "mount\n" if syscall($mount, $t, $p, $t, 0, 0) == 0;
print "bound\n" if open(F, ">", "$p/commands/pids.max") and syswrite(F, "5000\n");
print "done\n"' `

// Neither a user nor root can leave the cell or attack the guest.
func TestKernelAttacks(t *testing.T) {
	t.Parallel()
	g := newGVisor(t).start(t, "run")
	g.birth(t, nil)
	numbers := "272 165"
	if runtime.GOARCH == "arm64" {
		numbers = "97 40"
	}
	for _, who := range []string{"user", "root"} {
		for script, want := range map[string]string{
			escape + numbers: "done\n",
			"unshare -Ur id 2>/dev/null || echo refused":                                                            "refused\n",
			"unshare -m id 2>/dev/null || echo refused":                                                             "refused\n",
			"chroot / id 2>/dev/null || echo refused":                                                               "refused\n",
			"kill -9 1 2>/dev/null || echo refused":                                                                 "refused\n",
			"kill -9 -1; echo alive":                                                                                "alive\n",
			"cat /proc/1/environ /proc/1/maps /proc/1/mem 2>/dev/null || echo refused":                              "refused\n",
			"for f in /proc/1/fd/* /proc/1/root /proc/1/cwd; do readlink $f && ls $f/; done; :":                     "",
			"hostname other 2>/dev/null || echo refused":                                                            "refused\n",
			"cat /proc/self/cgroup":                                                                                 "0::/commands\n",
			"for f in --ruid --euid --reuid; do setpriv $f 65533 kill -9 1 2>/dev/null && echo $f; done; echo done": "done\n",
			"grep cgroup /proc/self/mounts | grep -vc ' ro,'; echo 1 2>/dev/null > /sys/fs/cgroup/pids.max; mkdir /sys/fs/cgroup/x 2>/dev/null || echo read-only": "0\nread-only\n",
		} {
			r := g.mustRunAs(t, who, script)
			if out := r.stdout.String(); out != want {
				t.Errorf("%s: %s: %q, not %q (%s)", who, script, out, want, strings.TrimSpace(r.stderr.String()))
			}
		}
	}
	// What those tools do for root elsewhere, they do here.
	if out := g.as(t, "root", "setpriv --reuid 1000 id -u; setpriv --reuid 65532 id -u"); out != "1000\n65532\n" {
		t.Errorf("%q", out)
	}
}

// A fork bomb stops at the limit; the guest continues and kills it.
func TestKernelForkBomb(t *testing.T) {
	t.Parallel()
	g := newGVisor(t).start(t, "run")
	g.birth(t, nil)
	bomb := g.begin(t, "bomb", `echo first; exec perl -e 'while (1) { fork; select(undef, undef, undef, 0.05) }'`, envd.StartOptions{Timeout: 12 * time.Second})
	until(t, "the bound is reached", func() bool {
		m, err := g.client.Metrics(t.Context())
		if err != nil || m.Processes > 101 {
			t.Errorf("%+v %v", m, err)
		}
		return m.Processes > 95
	})
	var r result
	collect(bomb, &r)
	if r.end == nil || r.end.Cause != api.CauseTimeout {
		t.Errorf("the bomb's end: %+v %v", r.end, r.err)
	}
	until(t, "there is room again", func() bool {
		r := g.run(t, shell("true | true | true"), envd.StartOptions{})
		return r.err == nil && r.end != nil && r.end.ExitCode == 0 && r.stderr.Len() == 0
	})
}
