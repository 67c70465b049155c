package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sdk SOCKET")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := client.Unix(os.Args[1])
	defer c.Close()
	err := inSandbox(ctx, c)
	if err == nil {
		err = askForProgram(ctx, c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if hint := api.HintOf(err); hint != "" {
			fmt.Fprintln(os.Stderr, "  next:", hint)
		}
		os.Exit(1)
	}
}

// inSandbox makes a sandbox, works in it, and ends it.
func inSandbox(ctx context.Context, c *client.Client) error {
	s, err := c.Sandboxes.Create(ctx, api.CreateSandbox{
		TTLMS:  time.Minute.Milliseconds(),
		Limits: api.Limits{MemoryBytes: 256 << 20},
		Labels: map[string]string{"example": "sdk"},
	})
	if err != nil {
		return err
	}
	defer s.Close()

	if err := s.WriteFile(ctx, "", "/workspace/words.txt", strings.NewReader("pear\napple\nfig\n")); err != nil {
		return err
	}
	// Cmd works like the one of os/exec.
	cmd := s.Command(ctx, "sort", "-o", "sorted.txt", "words.txt")
	cmd.Dir = "/workspace"
	if err := cmd.Run(); err != nil {
		return err
	}
	r, _, err := s.ReadFile(ctx, "", "/workspace/sorted.txt")
	if err != nil {
		return err
	}
	defer r.Close()
	sorted, err := io.ReadAll(io.LimitReader(r, 1<<20))
	if err != nil {
		return err
	}
	fmt.Println("sorted:", strings.Join(strings.Fields(string(sorted)), " "))

	// A command that ran and did not succeed is an ExitError.
	var exit *client.ExitError
	if err := s.Command(ctx, "sh", "-c", "exit 3").Run(); errors.As(err, &exit) {
		fmt.Println("exit code:", exit.Exit.Code)
	}
	killed, err := s.Kill(ctx)
	if err != nil {
		return err
	}
	fmt.Println("processes left:", killed.Proof.Left)
	return nil
}

// askForProgram has a sentence turned into a program, and tells what happens.
func askForProgram(ctx context.Context, c *client.Client) error {
	task, err := c.Tasks.Create(ctx, api.CreateTask{Request: "print the first 5 prime numbers"})
	if err != nil {
		return err
	}
	for e, err := range c.Tasks.Events(ctx, task.ID, 0) {
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "event:", e.Type)
	}
	if task, err = c.Tasks.Get(ctx, string(task.ID)); err != nil {
		return err
	}
	fmt.Println("outcome:", task.Outcome)
	if task.Outcome != api.OutcomeVerified {
		return nil
	}
	r, err := c.Tasks.Output(ctx, task.ID, len(task.Attempts), "stdout")
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(os.Stdout, r)
	return err
}
