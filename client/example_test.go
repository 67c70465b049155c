package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/guest"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/test/patience"
	"hortus.dev/test/reaper"
)

// socket is that of the daemon which the examples speak to.
var socket string

// TestMain lets the test binary be a guest, and runs a daemon for the examples.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case initns.Argv0:
		os.Exit(initns.Main())
	case birth.Argv0:
		os.Exit(guest.Main())
	}
	os.Exit(reaper.Run(func() int { return withDaemon(m.Run) }))
}

func withDaemon(run func() int) int {
	dir, err := os.MkdirTemp("", "hcl")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	socket = filepath.Join(dir, "hortus.sock")
	ctx, stop := context.WithCancel(context.Background())
	s, err := daemon.Open(ctx, daemon.Config{DataDir: dir, Idle: -1, Pool: -1, Home: dir, Path: os.Getenv("PATH")})
	if err != nil {
		fmt.Fprintln(os.Stderr, "open a daemon:", err)
		stop()
		return 1
	}
	ready, served := make(chan struct{}), make(chan error, 1)
	go func() { served <- s.Serve(ctx, func() { close(ready) }) }()
	code := 1
	select {
	case <-ready:
		code = run()
		stop()
		err = <-served
	case err = <-served:
	}
	stop()
	closing, cancel := context.WithTimeout(context.Background(), patience.Of(time.Minute))
	defer cancel()
	if err = errors.Join(err, s.Close(closing)); err != nil {
		fmt.Fprintln(os.Stderr, "the daemon:", err)
		code = 1
	}
	return code
}

// open makes a client and a sandbox. The examples trust their code; leave Isolation
// out for code that nobody has read.
func open(ctx context.Context) (*client.Client, *client.Sandbox) {
	c := client.Unix(socket)
	s, err := c.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "process"})
	if err != nil {
		panic(err)
	}
	return c, s
}

func Example() {
	ctx := context.Background()
	c := client.Unix(socket)
	defer c.Close()
	s, err := c.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "process"})
	if err != nil {
		fmt.Println(err, api.HintOf(err))
		return
	}
	defer s.Kill(ctx)
	out, err := s.Command(ctx, "sh", "-c", "echo 6 times 7 is $((6*7))").Output()
	fmt.Printf("%s%v\n", out, err)
	// Output:
	// 6 times 7 is 42
	// <nil>
}

func ExampleCmd() {
	ctx := context.Background()
	c, s := open(ctx)
	defer c.Close()
	defer s.Kill(ctx)

	cmd := s.Command(ctx, "sh", "-c", `tr a-z A-Z; echo "$NAME" >&2; exit 3`)
	cmd.Env = map[string]string{"NAME": "garden"}
	cmd.Stdin = strings.NewReader("hortus\n")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()

	var exit *client.ExitError
	if errors.As(err, &exit) {
		fmt.Println("exit code:", exit.Code)
	}
	fmt.Print(stdout.String(), stderr.String())
	// Output:
	// exit code: 3
	// HORTUS
	// garden
}

func ExampleSandbox_WriteFile() {
	ctx := context.Background()
	c, s := open(ctx)
	defer c.Close()
	defer s.Kill(ctx)
	if err := s.WriteFile(ctx, "", "words.txt", strings.NewReader("pear\napple\n")); err != nil {
		fmt.Println(err)
	}
	out, err := s.Command(ctx, "sort", "words.txt").Output()
	fmt.Printf("%s%v\n", out, err)
	// Output:
	// apple
	// pear
	// <nil>
}

func ExampleRunService_Events() {
	ctx := context.Background()
	c := client.Unix(socket)
	defer c.Close()
	run, err := c.Runs.Create(ctx, api.CreateRun{Request: "Write a Python script that prints the first 5 primes", Isolation: "process"})
	if err != nil {
		fmt.Println(err, api.HintOf(err))
		return
	}
	// A connection that breaks is made again, where it was.
	var output []byte
	for e, err := range c.Runs.Events(ctx, run.ID, 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch e.Type {
		case api.EventPlan, api.EventCode:
			fmt.Println(e.Type.RunName())
		case api.EventOutput:
			var o api.OutputEvent
			if json.Unmarshal(e.Data, &o) == nil {
				output = append(output, o.Data...)
			}
		case api.EventTaskFinished:
			var t api.Task
			if json.Unmarshal(e.Data, &t) == nil {
				fmt.Printf("%s%s\n", output, t.Outcome)
			}
		}
	}
	// Output:
	// plan
	// code
	// 2, 3, 5, 7, 11
	// verified
}

func ExampleWithIdempotencyKey() {
	ctx := client.WithIdempotencyKey(context.Background(), "order-4711")
	c := client.Unix(socket)
	defer c.Close()
	req := api.CreateSandbox{Isolation: "process"}
	first, err := c.Sandboxes.Create(ctx, req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer first.Kill(ctx)
	// Anyone who does not know whether the first arrived sends it again.
	again, err := c.Sandboxes.Create(ctx, req)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(first.ID() == again.ID())
	// Output: true
}

func ExampleSandbox_Execute() {
	ctx := context.Background()
	c, s := open(ctx)
	defer c.Close()
	defer s.Kill(ctx)
	for _, code := range []string{
		"export STEP=1; echo 41 >n.txt",
		"echo $(($(cat n.txt) + STEP))",
	} {
		x, err := s.Execute(ctx, api.ExecuteRequest{Language: "bash", Code: code})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d %q\n", x.ExitCode, x.Stdout)
	}
	// Output:
	// 0 ""
	// 0 "42\n"
}

func ExampleSandbox_CreateExec() {
	ctx := context.Background()
	c, s := open(ctx)
	defer c.Close()
	defer s.Kill(ctx)
	x, err := s.CreateExec(ctx, api.ExecRequest{Args: []string{"sh", "-c", "cat; echo the end"}, Stdin: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Nobody reads its output; it is kept all the same, and can be read from any byte
	// that was written.
	if err := s.SendInput(ctx, x.ID, strings.NewReader("a line\n"), true); err != nil {
		fmt.Println(err)
	}
	var out bytes.Buffer
	err = s.Attach(ctx, x.ID, 0, &out, nil)
	fmt.Printf("%s%v\n", out.String(), err)
	killed, err := s.KillExec(ctx, x.ID)
	fmt.Println(killed.Exec.State, killed.Exec.Exit.Code, err)
	// Output:
	// a line
	// the end
	// <nil>
	// exited 0 <nil>
}
