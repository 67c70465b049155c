package load

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// maxAt is the maximum number of connections at once, maxSamples that of samples.
	maxAt, maxSamples = 4096, 8192
	// timeout is the maximum duration of a sample.
	timeout = time.Minute
)

// run carries out a job.
func (j Job) run(ctx context.Context) Result {
	if j.At < 1 || j.At > maxAt || j.N < 0 || j.N > maxSamples {
		return Result{Error: "the numbers of a job are out of range", Failed: 1}
	}
	used := processorTime()
	if err := j.resolve(ctx); err != nil {
		return Result{Error: err.Error(), Failed: 1}
	}
	c := &collector{left: j.N}
	if j.For > 0 {
		c.until = time.Now().Add(j.For)
	}
	var workers, ready sync.WaitGroup
	start := make(chan struct{})
	ready.Add(j.At)
	for range j.At {
		workers.Go(func() { j.work(ctx, c, &ready, start) })
	}
	ready.Wait()
	began := time.Now()
	close(start)
	workers.Wait()
	c.Took, c.CPU = time.Since(began), processorTime()-used
	if j.For > 0 {
		c.Times = nil
	}
	return c.Result
}

// processorTime is that of this process.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resolve replaces the name of the server by its address, so that a lookup is part of no sample.
func (j *Job) resolve(ctx context.Context) error {
	host, port, err := net.SplitHostPort(j.To)
	if err != nil || j.Do == Lookup {
		return err
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	all, err := (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip4", host)
	if err != nil {
		return err
	}
	j.To = net.JoinHostPort(all[0].Unmap().String(), port)
	return nil
}

// collector collects the samples of all workers.
type collector struct {
	mu    sync.Mutex
	left  int
	until time.Time
	Result
}

// next reports whether another sample is to be taken.
func (c *collector) next() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.until.IsZero() {
		return time.Now().Before(c.until)
	}
	c.left--
	return c.left >= 0
}

func (c *collector) add(took time.Duration, bytes int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Bytes += bytes
	if err != nil {
		if c.Failed++; c.Error == "" {
			c.Error = err.Error()
		}
		return
	}
	c.Count++
	if len(c.Times) < maxSamples {
		c.Times = append(c.Times, took.Microseconds())
	}
}

// work takes samples. What it needs before is ready when all others are.
func (j Job) work(ctx context.Context, c *collector, ready *sync.WaitGroup, start <-chan struct{}) {
	var kept *conn
	var err error
	if j.Do == Request || j.Do == Body {
		if kept, err = j.open(ctx); err == nil {
			defer kept.Close()
			_, err = j.get(kept, "/small")
		}
	}
	ready.Done()
	<-start
	if err != nil {
		c.add(0, 0, err)
		return
	}
	for c.next() {
		began := time.Now()
		n, err := j.sample(ctx, kept)
		c.add(time.Since(began), n, err)
		if err != nil && kept != nil {
			return
		}
	}
}

// sample takes a sample.
func (j Job) sample(ctx context.Context, kept *conn) (int64, error) {
	switch j.Do {
	case Connect:
		c, err := j.open(ctx)
		if err != nil {
			return 0, err
		}
		defer c.Close()
		return j.get(c, "/small")
	case Request:
		return j.get(kept, "/small")
	case Body:
		return j.get(kept, fmt.Sprintf("/body?bytes=%d", j.Bytes))
	case Lookup:
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		_, err := (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip4", j.Name)
		return 0, err
	}
	return 0, fmt.Errorf("there is no job %.20q", j.Do)
}

// conn is a TLS connection to the server.
type conn struct {
	*tls.Conn
	br *bufio.Reader
}

// open opens a connection.
func (j Job) open(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	to := j.To
	if j.Proxy != "" {
		to = j.Proxy
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp4", to)
	if err != nil {
		return nil, err
	}
	if err = raw.SetDeadline(time.Now().Add(timeout)); err == nil && j.Proxy != "" {
		err = tunnel(raw, j.To)
	}
	t := tls.Client(raw, &tls.Config{ServerName: j.Name, InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err == nil {
		err = t.HandshakeContext(ctx)
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	return &conn{t, bufio.NewReaderSize(t, 64<<10)}, nil
}

// tunnel asks a proxy to connect.
func tunnel(c net.Conn, to string) error {
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the proxy answered %s", resp.Status)
	}
	return err
}

// get makes a request and reads the answer. It returns the size of its body.
func (j Job) get(c *conn, path string) (int64, error) {
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return 0, err
	}
	token := ""
	if j.Bearer != "" {
		token = "Authorization: Bearer " + os.Getenv(j.Bearer) + "\r\n"
	}
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", path, j.Name, token); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(c.br, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the server answered %s", resp.Status)
	}
	return n, err
}
