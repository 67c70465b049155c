package outgoing

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
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
	"hortus.dev/cmd/hortus-bench/load"
	"hortus.dev/cmd/hortus-bench/program"
)

// Names of the server under measurement. A policy passes connections to the first one through
// and terminates those to the second.
const (
	names          = ".bench.example.org"
	namePassed     = "passed" + names
	nameTerminated = "terminated" + names
	// nameBrokered is one to which requests have a secret.
	nameBrokered = "secret" + names
)

// Outside is what the connections of a sandbox reach: the names and the authority of the servers.
type Outside struct {
	// CA is the certificate of the authority, in PEM.
	CA     []byte
	listen load.Listen
}

// LookupNetIP resolves the names of the servers to this host, and others as this host does.
func (Outside) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if strings.HasSuffix(strings.TrimSuffix(host, "."), names) {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}
	return net.DefaultResolver.LookupNetIP(ctx, network, host)
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
		err = api.Errorf(api.KindInternal, "%s: %d of %d samples failed: %s", l.name, res.Failed, res.Failed+res.Count, program.Clip(res.Error, 200))
	}
	return res, err
}

// startLoad starts package load as a process of this host.
func startLoad(ctx context.Context, mode string) (*program.Talk, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args, cmd.Env = []string{load.Argv0, mode}, []string{}
	talk, err := program.Start(cmd)
	if err != nil {
		return nil, internal(err)
	}
	return talk, nil
}

// serveLoad starts a server and returns its port.
func serveLoad(ctx context.Context, l load.Listen) (port int, stop func(), err error) {
	talk, err := startLoad(ctx, "serve")
	if err != nil {
		return 0, nil, err
	}
	var served load.Served
	if err := talk.Call(ctx, l, &served); err != nil {
		talk.Close()
		return 0, nil, api.Errorf(api.KindInternal, "egress: the server did not start: %w", err)
	}
	return served.Port, talk.Close, nil
}

// asks returns an asker: a program that carries out jobs.
func asks(t *program.Talk) asker {
	return func(ctx context.Context, j load.Job) (res load.Result, err error) {
		err = t.Call(ctx, j, &res)
		return res, err
	}
}

// loadPath is where the program is in a sandbox.
const loadPath = "/tmp/" + load.Argv0

// loadIn writes the program into a sandbox.
func (r *run) loadIn(ctx context.Context, id api.SandboxID) error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	guest, err := r.Sandboxes.Guests.Client(ctx, id)
	if err != nil {
		return err
	}
	if err := guest.WriteFile(ctx, "", loadPath, self); err != nil {
		return err
	}
	_, err = r.In(ctx, id, []string{"chmod", "755", loadPath})
	return err
}

// NewOutside makes an authority and a certificate of the servers' names.
func NewOutside() (o Outside, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return o, internal(err)
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Hortus bench"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, &key.PublicKey, key)
	if err != nil {
		return o, internal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: namePassed}, DNSNames: []string{namePassed, nameTerminated, nameBrokered},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return o, internal(err)
	}
	cert, err := x509.CreateCertificate(rand.Reader, leaf, root, &own.PublicKey, key)
	if err != nil {
		return o, internal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return o, internal(err)
	}
	text := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return Outside{CA: []byte(text("CERTIFICATE", der)), listen: load.Listen{Cert: text("CERTIFICATE", cert), Key: text("PRIVATE KEY", secret)}}, nil
}

// internal is an error of this host.
func internal(err error) error { return api.Errorf(api.KindInternal, "egress: %w", err) }

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
func daemonProcess(ctx context.Context, port int, path string, args ...string) (pid int, end func(), err error) {
	cmd := exec.CommandContext(ctx, path, args...)
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
			return 0, nil, program.Failure(err, complaint.String())
		case <-ctx.Done():
			end()
			return 0, nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			end()
			return 0, nil, program.Failure(context.DeadlineExceeded, complaint.String())
		}
	}
}
