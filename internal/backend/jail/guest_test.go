package jail_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/test/reaper"
)

// TestMain is also the stage before the guest, the guest, and the programs that
// tests run inside.
func TestMain(m *testing.M) {
	switch os.Args[0] {
	case jail.InitArgv0:
		os.Exit(jail.InitMain())
	case birth.Argv0:
		os.Exit(guestMain())
	}
	if kind := os.Getenv("HORTUS_TEST_CHILD"); kind != "" {
		os.Exit(childMain(kind))
	}
	os.Exit(reaper.Run(func() int { return runTests(m) }))
}

// scratch is a directory that all tests share.
var scratch string

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hortus-container-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	scratch = dir
	defer os.RemoveAll(dir)
	return m.Run()
}

// request is what a test asks of its guest, one on each stream.
type request struct {
	User string
	Args []string
	Dir  string
	Func string // a function of this binary instead of Args
}

type reply struct {
	Code     int
	Out, Err string
}

// guestMain is a guest with the smallest wire there can be.
func guestMain() int {
	f := os.NewFile(birth.ControlFD, "control")
	conn, err := net.FileConn(f)
	if err != nil {
		return 90
	}
	control := conn.(*net.UnixConn)
	f.Close()
	buf := make([]byte, birth.MaxPacket)
	n, err := control.Read(buf)
	if err != nil {
		return 91
	}
	var cfg birth.Config
	if err := json.Unmarshal(buf[:n], &cfg); err != nil {
		return 92
	}
	f = os.NewFile(birth.ListenFD, "listen")
	l, err := net.FileListener(f)
	if err != nil {
		return 93
	}
	f.Close()
	rep, _ := json.Marshal(birth.Report{Ready: true})
	if _, err := control.Write(rep); err != nil {
		return 94
	}
	if n, err = control.Read(buf); err != nil || string(buf[:n]) != birth.GoPacket {
		return 95
	}
	control.Close()
	for {
		c, err := l.Accept()
		if err != nil {
			return 96
		}
		go serve(c, &cfg)
	}
}

func serve(c net.Conn, cfg *birth.Config) {
	defer c.Close()
	var req request
	if json.NewDecoder(c).Decode(&req) != nil {
		return
	}
	var rep reply
	switch req.Func {
	case "":
		rep = execute(req, cfg)
	case "exit":
		os.Exit(7)
	case "config":
		b, _ := json.Marshal(cfg)
		rep.Out = string(b)
	case "fds":
		entries, _ := os.ReadDir("/proc/self/fd")
		for _, e := range entries {
			t, _ := os.Readlink("/proc/self/fd/" + e.Name())
			rep.Out += e.Name() + " " + t + "\n"
		}
	case "status":
		b, _ := os.ReadFile("/proc/self/status")
		rep.Out = string(b)
	default:
		rep = execute(request{User: req.User, Args: []string{"/test-binary"}, Func: req.Func}, cfg)
	}
	json.NewEncoder(c).Encode(rep)
}

func execute(req request, cfg *birth.Config) reply {
	if req.User == "" {
		req.User = "user"
	}
	for _, id := range cfg.Identities {
		if id.Name != req.User {
			continue
		}
		cmd := exec.Command("/usr/bin/env", req.Args...)
		if strings.HasPrefix(req.Args[0], "/") {
			cmd = exec.Command(req.Args[0], req.Args[1:]...)
		}
		cmd.Dir = cfg.Workspace
		if req.Dir != "" {
			cmd.Dir = req.Dir
		}
		cmd.Env = []string{"PATH=" + cfg.Path, "HOME=" + id.Home}
		for k, v := range cfg.Env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		if req.Func != "" {
			cmd.Env = append(cmd.Env, "HORTUS_TEST_CHILD="+req.Func)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if cfg.Switch {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: id.UID, Gid: id.GID, Groups: id.Groups}
		}
		// What is inherited belongs to a thread. This one forks, gives up what
		// the identity may not have, and ends with its goroutine.
		runtime.LockOSThread()
		held := heldCaps()
		var pass uint32
		for _, c := range id.Caps {
			pass |= 1 << c
		}
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		data := [2]unix.CapUserData{{Permitted: held, Effective: held, Inheritable: pass}}
		if err := unix.Capset(&hdr, &data[0]); err != nil {
			return reply{Code: 125, Err: err.Error()}
		}
		cmd.SysProcAttr.AmbientCaps = id.Caps
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		rep := reply{Out: out.String(), Err: errs.String()}
		var ee *exec.ExitError
		if errors.As(err, &ee) {
			rep.Code = ee.ExitCode()
			if ws := ee.Sys().(syscall.WaitStatus); ws.Signaled() {
				rep.Code = 128 + int(ws.Signal())
			}
		} else if err != nil {
			rep.Code, rep.Err = 127, err.Error()
		}
		return rep
	}
	return reply{Code: 126, Err: "no such user"}
}

// heldCaps reads the permitted set, which fits into 32 bits.
func heldCaps() uint32 {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	unix.Capget(&hdr, &data[0])
	return data[0].Permitted
}
