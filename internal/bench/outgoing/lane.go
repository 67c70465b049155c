package outgoing

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/bench/load"
)

// Names of the server under measurement. A policy passes connections to the first one through
// and terminates those to the second.
const (
	namePassed     = "passed.bench.example.org"
	nameTerminated = "terminated.bench.example.org"
	// nameBrokered is one to which requests have a secret.
	nameBrokered = "secret.bench.example.org"
)

// Outside is what the connections of a sandbox reach: names, and the authorities of servers.
type Outside struct {
	Resolver interface {
		LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	}
	Roots *x509.CertPool
}

// loopback resolves every name to this host.
type loopback struct{}

func (loopback) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
}

// lane is one way from a client to the server.
type lane struct {
	name, backend string
	ask           asker
	job           load.Job // To, Name, Proxy and Bearer
	// against is the lane that it is compared with.
	against, note string
	// cpu returns the processor time of what carries, which includes that of the client if
	// client is true; nil for a direct connection.
	cpu     func(ctx context.Context) (time.Duration, error)
	client  bool
	results map[string]*results // by row
}

// results are those of all jobs of a row.
type results struct {
	times []time.Duration
	rates []float64 // MB/s
	// cpu is the processor time of what carried count samples and so many bytes.
	cpu   time.Duration
	count int
	bytes int64
}

// asker has a client carry out a job.
type asker func(ctx context.Context, j load.Job) (load.Result, error)

// do carries out a job. All of its samples must succeed.
func (l *lane) do(ctx context.Context, j load.Job) (load.Result, error) {
	j.To, j.Name, j.Proxy, j.Bearer = l.job.To, l.job.Name, l.job.Proxy, l.job.Bearer
	var before, after time.Duration
	var err error
	if l.cpu != nil {
		if before, err = l.cpu(ctx); err != nil {
			return load.Result{}, err
		}
	}
	res, err := l.ask(ctx, j)
	if err == nil && l.cpu != nil {
		after, err = l.cpu(ctx)
		if after -= before; l.client {
			after -= res.CPU
		}
	}
	res.CPU = max(after, 0) // the client's own is of no interest
	if err == nil && res.Failed > 0 {
		err = api.Errorf(api.KindInternal, "%s: %d of %d samples failed: %s", l.name, res.Failed, res.Failed+res.Count, clip(res.Error, 200))
	}
	return res, err
}

// hostProgram is package load as a process of this host.
type hostProgram struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startLoad starts the program on this host. It ends with close.
func startLoad(ctx context.Context, mode string) (*hostProgram, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{load.Argv0, mode}
	cmd.Env = []string{}
	p := &hostProgram{cmd: cmd}
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReaderSize(out, maxAnswer)
	return p, cmd.Start()
}

// call sends a line of JSON and reads one.
func (p *hostProgram) call(q, a any) error {
	line, err := json.Marshal(q)
	if err == nil {
		_, err = p.in.Write(append(line, '\n'))
	}
	if err != nil {
		return err
	}
	if line, err = p.out.ReadSlice('\n'); err != nil {
		return err
	}
	return json.Unmarshal(line, a)
}

func (p *hostProgram) ask(_ context.Context, j load.Job) (res load.Result, err error) {
	err = p.call(j, &res)
	return res, err
}

// serveLoad starts a server and returns its port.
func serveLoad(ctx context.Context, l load.Listen) (port int, stop func(), err error) {
	p, err := startLoad(ctx, "serve")
	if err != nil {
		return 0, nil, api.Errorf(api.KindInternal, "egress: %w", err)
	}
	var served load.Served
	if err := p.call(l, &served); err != nil {
		p.close()
		return 0, nil, api.Errorf(api.KindInternal, "egress: the server did not start: %w", err)
	}
	return served.Port, p.close, nil
}

func (p *hostProgram) close() {
	p.in.Close()
	_ = p.cmd.Wait()
}

// asks returns an asker: a program in a sandbox that carries out jobs.
func asks(t Talk) asker {
	return func(ctx context.Context, j load.Job) (res load.Result, err error) {
		line, err := json.Marshal(j)
		if err != nil {
			return res, err
		}
		answer, err := t.Ask(ctx, string(line))
		if err != nil {
			return res, err
		}
		return res, json.Unmarshal([]byte(answer), &res)
	}
}

// loadPath is where the program is in a sandbox.
const loadPath = "/tmp/" + load.Argv0

// loadIn writes the program into a sandbox.
func (b *run) loadIn(ctx context.Context, id api.SandboxID) error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	guest, err := b.Sandboxes.Client(ctx, id)
	if err != nil {
		return err
	}
	if err := guest.WriteFile(ctx, "", loadPath, self); err != nil {
		return err
	}
	_, err = b.In(ctx, id, []string{"chmod", "755", loadPath})
	return err
}

// issue makes an authority and a certificate of the server's names.
func issue() (ca []byte, l load.Listen, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, l, err
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Hortus bench"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, &key.PublicKey, key)
	if err != nil {
		return nil, l, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: namePassed}, DNSNames: []string{namePassed, nameTerminated, nameBrokered},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, l, err
	}
	cert, err := x509.CreateCertificate(rand.Reader, leaf, root, &own.PublicKey, key)
	if err != nil {
		return nil, l, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return nil, l, err
	}
	text := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return []byte(text("CERTIFICATE", der)), load.Listen{Cert: text("CERTIFICATE", cert), Key: text("PRIVATE KEY", secret)}, nil
}

func at(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// freePort returns a port of loopback that nobody has now.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// processCPU returns the processor time of a process of this host.
func processCPU(pid int) func(context.Context) (time.Duration, error) {
	return func(context.Context) (time.Duration, error) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		f := strings.Fields(rest) // from the third field on
		if len(f) < 13 {
			return 0, errors.New("/proc/PID/stat is malformed")
		}
		var ticks int64 // of 10 ms
		for _, s := range f[11:13] {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				return 0, err
			}
			ticks += n
		}
		return time.Duration(ticks) * 10 * time.Millisecond, nil
	}
}

// carriedCPU returns the processor time of this daemon and of a sandbox.
func (r *run) carriedCPU(id api.SandboxID) func(context.Context) (time.Duration, error) {
	of := r.CPU(id)
	return func(ctx context.Context) (time.Duration, error) {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			return 0, err
		}
		inside, err := of(ctx)
		return time.Duration(u.Utime.Nano()+u.Stime.Nano()) + inside, err
	}
}

// daemonProcess starts a proxy and waits until it accepts connections.
func daemonProcess(ctx context.Context, port int, program string, args ...string) (pid int, end func(), err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C.UTF-8"}
	var complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &complaint, &complaint
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	end = func() {
		_ = cmd.Process.Kill()
		<-done
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if c, err := net.Dial("tcp4", at("127.0.0.1", port)); err == nil {
			return cmd.Process.Pid, end, c.Close()
		}
		select {
		case err := <-done:
			return 0, nil, failure(err, complaint.String())
		case <-ctx.Done():
			end()
			return 0, nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			end()
			return 0, nil, failure(context.DeadlineExceeded, complaint.String())
		}
	}
}

// maxAnswer is the maximum size of an answer of a client, in bytes.
const maxAnswer = 64 << 10

// failure returns why a program did not start, in a line.
func failure(err error, text string) error {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return errors.New("does not work here: " + clip(last, 200))
	}
	return fmt.Errorf("does not work here: %w", err)
}

func clip(s string, most int) string { return s[:min(len(s), most)] }
