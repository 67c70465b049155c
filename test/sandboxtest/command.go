package sandboxtest

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/test/patience"
)

func commandCases() []Case {
	start := []api.Capability{api.CapStart}
	return []Case{
		{Name: "command/exit-codes", Needs: start, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			for _, code := range []string{"0", "1", "7", "127", "255"} {
				if r := b.sh(t, "exit "+code); r.End.Status != "exit status "+code || !r.End.Exited {
					t.Errorf("exit %s: %+v", code, r.End)
				}
			}
			if r := b.sh(t, "kill -TERM $$"); r.Code() != 128+15 || r.End.Exited {
				t.Errorf("SIGTERM: %+v", r.End)
			}
		}},
		{Name: "command/streams-stay-apart", Needs: start, Check: func(t *testing.T, s *Suite) {
			r := s.start(t, nil).sh(t, "echo out; echo err >&2")
			if r.Stdout != "out\n" || r.Stderr != "err\n" {
				t.Errorf("stdout %q, stderr %q", r.Stdout, r.Stderr)
			}
		}},
		{Name: "command/environment", Claimed: true, PerUser: true, Alone: true, Needs: start, Check: func(t *testing.T, s *Suite) {
			t.Setenv("SANDBOXTEST_SECRET", "of the caller")
			b := s.start(t, nil)
			r := b.sh(t, "env")
			if !strings.Contains(r.Stdout, "SANDBOXTEST=given\n") {
				t.Errorf("the sandbox's variable is missing: %q", r.Stdout)
			}
			for _, name := range []string{"PATH=", "HOME=", "USER="} {
				if !strings.Contains("\n"+r.Stdout, "\n"+name) {
					t.Errorf("%s is missing: %q", name, r.Stdout)
				}
			}
			if strings.Contains(r.Stdout, "SANDBOXTEST_SECRET") {
				t.Errorf("the caller's environment reached the sandbox: %q", r.Stdout)
			}
		}},
		{Name: "command/not-found", Needs: start, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			if _, err := b.try(t, "", envd.StartOptions{}, "no-such-command-anywhere"); err == nil {
				t.Error("a command that is not there started")
			}
			b.sh(t, "echo still here").want(t, 0, "still here\n")
		}},
		{Name: "command/timeout", Needs: start, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			// Time enough for a shell to say a word, also on a busy machine.
			r, err := b.try(t, "", envd.StartOptions{Timeout: patience.Of(3 * time.Second)}, "sh", "-c", "echo begun; sleep 1000 & sleep 1000")
			if err != nil || r.End.Cause != api.CauseTimeout || r.Stdout != "begun\n" {
				t.Errorf("%+v, %v; want an end with cause timeout and the output before it", r, err)
			}
		}},
		{Name: "command/output-limit", Needs: []api.Capability{api.CapStart, api.CapLimitOutput}, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			r, err := b.try(t, "", envd.StartOptions{OutputLimit: 100_000}, "sh", "-c", "yes")
			if err != nil || r.End.Cause != api.CauseOutput {
				t.Errorf("%+v, %v; want an end with cause output limit", r.End, err)
			}
			if n := len(r.Stdout); n < 50_000 || n > 300_000 {
				t.Errorf("%d bytes came through a limit of 100000", n)
			}
		}},
		{Name: "command/survives-its-client", PerUser: true, Needs: start, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			no := false
			id := string(api.NewExecID())
			ps, err := b.Guest.Start(t.Context(), &envd.StartRequest{Stdin: &no, Process: &envd.ProcessConfig{Cmd: "sh",
				Args: []string{"-c", "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; exit 3"}}}, envd.StartOptions{ExecID: id})
			if err != nil {
				t.Fatal(err)
			}
			for {
				ev, err := ps.Next()
				if err != nil {
					t.Fatal(err)
				}
				if ev.Data != nil {
					break
				}
			}
			ps.Close()
			b.sh(t, "touch go")
			ps, err = b.Guest.Connect(t.Context(), envd.Selector{}, envd.ConnectOptions{ExecID: id, Offset: 0})
			if err != nil {
				t.Fatal(err)
			}
			defer ps.Close()
			var out []byte
			for {
				ev, err := ps.Next()
				if err != nil {
					t.Fatal(err)
				}
				if ev.Data != nil {
					if ev.Data.Offset != int64(len(out)) {
						t.Errorf("offset %d after %d bytes", ev.Data.Offset, len(out))
					}
					out = append(out, ev.Data.Stdout...)
				}
				if ev.End != nil {
					if string(out) != "one\ntwo\n" || ev.End.ExitCode != 3 {
						t.Errorf("output %q, exit %d", out, ev.End.ExitCode)
					}
					return
				}
			}
		}},
		{Name: "command/stdin", Needs: start, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			yes := true
			ps, err := b.Guest.Start(t.Context(), &envd.StartRequest{Stdin: &yes, Process: &envd.ProcessConfig{Cmd: "cat"}}, envd.StartOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer ps.Close()
			ev, err := ps.Next()
			if err != nil || ev.Start == nil {
				t.Fatalf("%+v, %v", ev, err)
			}
			pid := ev.Start.PID
			sel := envd.Selector{PID: &pid}
			want := bytes.Repeat([]byte("0123456789\x00\xff\n"), 100_000)
			// The command may end before its last input call is answered, so the
			// answer is waited for before the test's context goes.
			input := make(chan error, 1)
			go func() {
				w, err := b.Guest.StreamInput(t.Context(), sel)
				if err == nil {
					_, err = w.Write(want)
				}
				if err == nil {
					err = w.Close()
				}
				if err == nil {
					err = b.Guest.CloseStdin(t.Context(), sel)
				}
				input <- err
			}()
			var got []byte
			for {
				ev, err := ps.Next()
				if err != nil {
					t.Fatal(err)
				}
				if ev.Data != nil {
					got = append(got, ev.Data.Stdout...)
				}
				if ev.End != nil {
					break
				}
			}
			if err := <-input; err != nil {
				t.Errorf("input: %v", err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes came back, not the %d that went in", len(got), len(want))
			}
		}},
		{Name: "command/files", Claimed: true, PerUser: true, Needs: start, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			ctx, cancel := context.WithTimeout(t.Context(), patience.Of(30*time.Second))
			defer cancel()
			want := bytes.Repeat([]byte{0, 1, 2, 255}, 300_000)
			if err := b.Guest.WriteFile(ctx, "", "deep/er/file.bin", bytes.NewReader(want)); err != nil {
				t.Fatalf("write: %v", err)
			}
			b.sh(t, "wc -c < deep/er/file.bin").want(t, 0, "1200000\n")
			r, size, err := b.Guest.ReadFile(ctx, "", "deep/er/file.bin")
			if err != nil {
				t.Fatalf("read: %v", err)
			}
			defer r.Close()
			got, err := io.ReadAll(r)
			if err != nil || size != int64(len(want)) || !bytes.Equal(got, want) {
				t.Errorf("read %d bytes (announced %d), %v", len(got), size, err)
			}
			if _, _, err := b.Guest.ReadFile(ctx, "", "no/such/file"); err == nil {
				t.Error("a file that is not there was read")
			}
		}},
	}
}
