package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings are the host's flags.
type settings struct {
	cache, run, tests string
	cpus              int
	memory            string
	timeout           time.Duration
	patience          int
	verbose, list     bool
}

func main() {
	if os.Getpid() == 1 {
		machineMain()
	}
	if len(os.Args) == 2 && os.Args[1] == worker {
		workerMain()
	}
	var s settings
	flag.StringVar(&s.cache, "cache", "bin/vm", "`folder` for Debian's packages and the images made from them")
	flag.StringVar(&s.run, "run", "", "run the steps whose name this `regexp` matches instead of all")
	flag.StringVar(&s.tests, "tests", "", "run the tests that this `regexp` matches instead of a step's own choice, and demand none")
	flag.BoolVar(&s.list, "list", false, "list the steps and end")
	flag.IntVar(&s.cpus, "cpus", 2, "processors of the machine")
	flag.StringVar(&s.memory, "memory", "4G", "memory of the machine")
	flag.DurationVar(&s.timeout, "timeout", time.Hour, "bound of the whole run")
	flag.IntVar(&s.patience, "patience", 10, "by how much tests wait longer than on a real machine")
	flag.BoolVar(&s.verbose, "v", false, "show what the tests say")
	flag.Parse()
	// QEMU dies with the thread that starts it.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := host(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "test-vm:", err)
		os.Exit(1)
	}
}

// host runs the selected steps in a machine and reports the results.
func host(ctx context.Context, s settings) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	pattern, err := regexp.Compile(s.run)
	if err != nil {
		return err
	}
	var steps []step
	for _, st := range plan() {
		if s.tests != "" {
			st.Args, st.Must = append(slices.Clone(st.Args), "-test.run", s.tests), nil // the last -test.run applies
		}
		if pattern.MatchString(st.Name) && (s.run != "" || !st.Named) {
			steps = append(steps, st)
		}
	}
	if s.list {
		for _, st := range plan() {
			place := places[st.Group]
			if st.below() {
				place = string(st.Group)
			}
			fmt.Printf("%-24s %s, uid %d, %s\n", st.Name, st.Package, st.UID, place)
		}
		return nil
	}
	if len(steps) == 0 {
		return fmt.Errorf("no step has a name like %q", s.run)
	}
	if s.cache, err = filepath.Abs(s.cache); err != nil {
		return err
	}
	if err := os.MkdirAll(s.cache, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(s.cache, "run-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	begun := time.Now()
	m, err := build(ctx, s, tmp, steps)
	if err != nil {
		return err
	}
	fmt.Printf("made the machine in %s: %s\n", seconds(time.Since(begun)), filepath.Base(m.kernel))
	records, err := m.run(ctx, s, steps)
	if err != nil {
		return errors.Join(err, fmt.Errorf("the console ended with:\n%s", m.console()))
	}
	return report(ctx, records, begun)
}

// report prints the table of results. It returns an error if a step failed.
func report(ctx context.Context, records []*record, begun time.Time) error {
	var total outcome
	packages := map[string]bool{}
	var bad []string
	for _, r := range records {
		o, err := r.judge(ctx)
		if err != nil {
			return err
		}
		total.passed, total.failed, total.skipped = total.passed+o.passed, total.failed+o.failed, total.skipped+o.skipped
		packages[r.step.Package] = true
		word := "ok  "
		if len(o.wrong) > 0 {
			word = "FAIL"
			bad = append(bad, r.step.Name)
		}
		took := "-"
		if r.exit != nil {
			took = seconds(r.exit.Took)
		}
		fmt.Printf("%s %-22s %8s %4d passed %3d skipped %3d failed\n", word, r.step.Name, took, o.passed, o.skipped, o.failed)
		for _, skip := range o.skips {
			fmt.Println("       skipped", skip)
		}
		for _, why := range o.wrong {
			fmt.Println("       wrong:", why)
		}
		if len(o.wrong) > 0 {
			fmt.Printf("---- the end of what %s said\n%s\n----\n", r.step.Name, tail(r.out.String(), 60))
		}
	}
	fmt.Printf("%d steps of %d packages: %d tests passed, %d skipped, %d failed, in %s\n",
		len(records), len(packages), total.passed, total.skipped, total.failed, seconds(time.Since(begun)))
	if len(bad) > 0 {
		return fmt.Errorf("not well: %s", strings.Join(bad, ", "))
	}
	return nil
}

// machine has the paths of the files that QEMU uses.
type machine struct {
	kernel, initrd, root, tests, log string
}

// build makes everything that the machine needs.
func build(ctx context.Context, s settings, tmp string, steps []step) (*machine, error) {
	d := debian{s.cache}
	kernel, modules, err := d.kernel(ctx)
	if err != nil {
		return nil, err
	}
	root, err := d.rootImage(ctx)
	if err != nil {
		return nil, err
	}
	m := &machine{kernel: kernel, root: root, initrd: filepath.Join(tmp, "initrd"), tests: filepath.Join(tmp, "tests.ext4"), log: filepath.Join(tmp, "console.log")}
	if err := writeInitrd(m.initrd, modules); err != nil {
		return nil, err
	}
	dir := filepath.Join(tmp, "tests")
	if err := collect(ctx, dir, s, steps); err != nil {
		return nil, err
	}
	if err := d.makeImage(ctx, dir, m.tests, "1G"); err != nil {
		return nil, err
	}
	return m, nil
}

// writeInitrd puts this program and the drivers into an initial RAM disk.
func writeInitrd(path, modules string) error {
	paths, err := modulePaths(modules, drivers)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	a := &archive{w: &b}
	for _, dir := range []string{"dev", "proc", "sys", "root", "modules"} {
		a.dir(dir)
	}
	// Process 1 writes its output to the console.
	a.device("dev/console", 5, 1)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	a.file("init", self)
	for i, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		a.file(fmt.Sprintf("modules/%02d-%s", i, filepath.Base(p)), data)
	}
	if err := a.close(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// collect writes the test binaries, the files that they read from their source
// folders, and the orders into a folder.
func collect(ctx context.Context, dir string, s settings, steps []step) error {
	for _, st := range steps {
		src, binary := filepath.Join(dir, "src", st.Package), filepath.Join(dir, binaryName(st.Package))
		if exists(binary) {
			continue // another step of the same package
		}
		if err := os.MkdirAll(src, 0o755); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./"+st.Package)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("compile the tests of %s: %w\n%s", st.Package, err, out)
		}
		if data := filepath.Join(st.Package, "testdata"); exists(data) {
			if err := os.CopyFS(filepath.Join(src, "testdata"), os.DirFS(data)); err != nil {
				return err
			}
		}
	}
	// Tests compare the documentation with their results.
	if err := os.CopyFS(filepath.Join(dir, "src/docs"), os.DirFS("docs")); err != nil {
		return err
	}
	for from, to := range map[string]string{"bin/hortus": "hortus", "/proc/self/exe": "vm"} {
		b, err := os.ReadFile(from)
		if err != nil {
			return fmt.Errorf("the built program is needed (make build): %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), b, 0o755); err != nil {
			return err
		}
	}
	b, err := json.Marshal(orders{Steps: steps, Patience: s.patience, Timeout: s.timeout})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "orders.json"), b, 0o644)
}

// console returns the last lines of the kernel's console.
func (m *machine) console() string {
	b, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	return tail(string(b), 60)
}

// run starts QEMU and listens until the machine is off.
func (m *machine) run(ctx context.Context, s settings, steps []step) ([]*record, error) {
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max,la57=off", "-smp", fmt.Sprint(s.cpus), "-m", s.memory,
		"-kernel", m.kernel, "-initrd", m.initrd, "-append", "console=ttyS0 panic=-1 rdinit=/init",
		"-serial", "file:"+m.log,
		"-drive", "if=virtio,format=raw,snapshot=on,file="+m.root,
		"-drive", "if=virtio,format=raw,snapshot=on,file="+m.tests,
		"-device", "virtio-rng-pci",
		"-device", "virtio-serial-pci", "-chardev", "file,id=out,path=/proc/self/fd/1", "-device", "virtserialport,chardev=out,name="+port)
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Dir(m.tests)) // for the snapshots of the images
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("QEMU is needed (Debian's qemu-system-x86): %w", err)
	}
	records, lerr := listen(out, s, steps)
	if lerr != nil && ctx.Err() == nil {
		// Do not wait for a machine that violates the protocol.
		_ = cmd.Process.Kill()
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		err = fmt.Errorf("the machine was not done within %s", s.timeout)
	}
	if err = errors.Join(lerr, err); err != nil {
		for _, r := range records {
			if r.exit == nil && r.out.Len() > 0 {
				err = fmt.Errorf("%w\n%s was under way and ended with:\n%s", err, r.step.Name, tail(r.out.String(), 40))
			}
		}
		return nil, fmt.Errorf("%w\n%s", err, errOut.String())
	}
	return records, nil
}

// listen reads the machine's messages to their end.
func listen(from io.Reader, s settings, steps []step) ([]*record, error) {
	records := make([]*record, len(steps))
	byName := map[string]*record{}
	for i, st := range steps {
		records[i] = &record{step: st}
		byName[st.Name] = records[i]
	}
	for dec := json.NewDecoder(from); ; {
		var msg message
		if err := dec.Decode(&msg); err != nil {
			return records, fmt.Errorf("the machine went silent before it was done: %w", err)
		}
		r := byName[msg.Step]
		switch {
		case msg.Fail != "":
			return records, fmt.Errorf("the machine cannot go on: %s", msg.Fail)
		case msg.Done:
			return records, nil
		case msg.Boot != nil:
			fmt.Printf("booted in %s: %s\n  control groups v2: %s; v1: %q\n  security modules: %s\n", seconds(msg.At), msg.Boot.Kernel, msg.Boot.Controllers, msg.Boot.V1, msg.Boot.Security)
			if msg.Boot.V1 != "" {
				return records, errors.New("the machine has control groups of version 1")
			}
		case r == nil:
			return records, fmt.Errorf("the machine speaks of the unknown step %q", msg.Step)
		case msg.Exit != nil:
			r.exit = msg.Exit
			fmt.Printf("%s ended with %d after %s\n", msg.Step, msg.Exit.Code, seconds(msg.Exit.Took))
		default:
			r.out.WriteString(msg.Text)
			if s.verbose {
				fmt.Print(msg.Text)
			}
		}
	}
}
