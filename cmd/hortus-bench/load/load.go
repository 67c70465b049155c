package load

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// Argv0 is the name of a binary that is to be this program.
const Argv0 = "hortus-bench-load"

// Actions of a Job.
const (
	// Connect opens a TLS connection for each sample, makes a small request and closes it.
	Connect = "connect"
	// Request makes small requests on connections that stay open, a sample each.
	Request = "request"
	// Body reads a large body on each connection.
	Body = "body"
	// Lookup resolves a name, a sample each.
	Lookup = "lookup"
)

// Job is what a client is to do.
type Job struct {
	Do string
	// To is the server, Name its TLS server name.
	To, Name string
	// Proxy is an HTTP proxy that is asked with CONNECT; empty means none.
	Proxy string `json:",omitempty"`
	// Bearer is an environment variable of the client whose value is sent as a bearer token;
	// empty means none.
	Bearer string `json:",omitempty"`
	// At is how many connections are used at once, N how many samples are taken.
	At, N int
	// Bytes is the size of a large body.
	Bytes int64 `json:",omitempty"`
	// For repeats the job for so long and returns a number of samples instead of their times.
	For time.Duration `json:",omitempty"`
}

// Result is how a Job went.
type Result struct {
	// Times are the samples in microseconds, Count is how many they are.
	Times []int64 `json:",omitempty"`
	Count int
	// Bytes were received in Took.
	Bytes int64
	Took  time.Duration
	// CPU is the processor time of the client, with what it did before the first sample.
	CPU time.Duration
	// Failed is the number of samples that failed, and Error the first reason.
	Failed int
	Error  string `json:",omitempty"`
}

// Listen is what a server is to present: a certificate and its key, in PEM.
type Listen struct{ Cert, Key string }

// Served is the port of a server.
type Served struct{ Port int }

// maxLine is the maximum length of a request, in bytes.
const maxLine = 64 << 10

// Main is the main function of the program. It returns its exit code.
func Main() int {
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	in := bufio.NewReaderSize(os.Stdin, maxLine)
	var err error
	switch mode {
	case "serve":
		err = serve(in, os.Stdout)
	case "drive":
		err = drive(ctx, in, os.Stdout)
	default:
		err = fmt.Errorf("usage: %s serve|drive", Argv0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// drive carries out jobs until the input ends.
func drive(ctx context.Context, in *bufio.Reader, out io.Writer) error {
	for {
		var j Job
		if err := read(in, &j); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := write(out, j.run(ctx)); err != nil {
			return err
		}
	}
}

func read(in *bufio.Reader, v any) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

func write(out io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = out.Write(append(line, '\n'))
	}
	return err
}
