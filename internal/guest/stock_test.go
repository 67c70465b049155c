//go:build linux

package guest

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"hortus.dev/api/envd"
	"hortus.dev/test/patience"
)

// wireCodec lets the stock Connect client encode this package's messages. Tests in
// api/envd compare their bytes with the protobuf library.
type wireCodec struct {
	name  string
	codec envd.Codec
}

func (w wireCodec) Name() string { return w.name }
func (w wireCodec) Marshal(m any) ([]byte, error) {
	return envd.Append(nil, w.codec, m.(envd.Message))
}
func (w wireCodec) Unmarshal(data []byte, m any) error {
	return envd.Decode(slices.Clone(data), w.codec, m.(envd.Message))
}

var wireCodecs = []wireCodec{{"proto", envd.Proto}, {"json", envd.JSON}}

func stock[In, Out any](g *guestProc, w wireCodec, proc string) *connect.Client[In, Out] {
	hc := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return g.dial(ctx) }}}
	return connect.NewClient[In, Out](hc, "http://guest"+proc, connect.WithCodec(w))
}

func call[In, Out any](t *testing.T, g *guestProc, w wireCodec, proc string, in *In) (*Out, error) {
	t.Helper()
	resp, err := stock[In, Out](g, w, proc).CallUnary(t.Context(), connect.NewRequest(in))
	if err != nil {
		return nil, err
	}
	return resp.Msg, nil
}

func must[T any](t *testing.T) func(v *T, err error) *T {
	return func(v *T, err error) *T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func stockRun(ctx context.Context, g *guestProc, w wireCodec, req *envd.StartRequest) *result {
	r := new(result)
	s, err := stock[envd.StartRequest, envd.ProcessResponse](g, w, envd.ProcStart).CallServerStream(ctx, connect.NewRequest(req))
	if err != nil {
		r.err = err
		return r
	}
	defer s.Close()
	for s.Receive() {
		switch ev := s.Msg().Event; {
		case ev.Start != nil:
			r.pid = ev.Start.PID
			if ev.Start.Offset != 0 {
				r.err = connect.NewError(connect.CodeInternal, nil)
			}
		case ev.Data != nil:
			r.stdout.Write(ev.Data.Stdout)
			r.stderr.Write(ev.Data.Stderr)
		case ev.End != nil:
			r.end = ev.End
		}
	}
	if r.err == nil {
		r.err = s.Err()
	}
	return r
}

func TestStockClientProcesses(t *testing.T) {
	g := startGuest(t, guestOptions{})
	for _, w := range wireCodecs {
		t.Run(w.name, func(t *testing.T) {
			ctx := t.Context()
			r := stockRun(ctx, g, w, shell("echo out; echo err >&2; exit 9"))
			if r.err != nil || r.stdout.String() != "out\n" || r.stderr.String() != "err\n" || r.end == nil || r.end.ExitCode != 9 || !r.end.Exited {
				t.Fatalf("%q %q %+v %v", r.stdout.String(), r.stderr.String(), r.end, r.err)
			}
			// The deadline is the process's lifetime.
			short, cancel := context.WithTimeout(ctx, 400*time.Millisecond)
			defer cancel()
			if r := stockRun(short, g, w, shell("sleep 100")); connect.CodeOf(r.err) != connect.CodeDeadlineExceeded {
				t.Errorf("at its timeout: %v", r.err)
			}
			cwd := "/no/such"
			if r := stockRun(ctx, g, w, &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: "true", Cwd: &cwd}}); connect.CodeOf(r.err) != connect.CodeInvalidArgument || !strings.Contains(r.err.Error(), "cwd '/no/such' does not exist") {
				t.Errorf("cwd: %v", r.err)
			}
			tag := "cat-" + w.name
			s, err := stock[envd.StartRequest, envd.ProcessResponse](g, w, envd.ProcStart).CallServerStream(ctx, connect.NewRequest(&envd.StartRequest{Process: &envd.ProcessConfig{Cmd: "cat"}, Tag: &tag}))
			if err != nil || !s.Receive() {
				t.Fatal(err, s.Err())
			}
			sel := &envd.Selector{Tag: &tag}
			list := must[envd.ListResponse](t)(call[envd.Empty, envd.ListResponse](t, g, w, envd.ProcList, &envd.Empty{}))
			i := slices.IndexFunc(list.Processes, func(p *envd.ProcessInfo) bool { return p.Tag != nil && *p.Tag == tag })
			if i < 0 || list.Processes[i].Config.Cmd != "cat" || list.Processes[i].PID != s.Msg().Event.Start.PID {
				t.Errorf("%+v", list.Processes)
			}
			must[envd.Empty](t)(call[envd.SendInputRequest, envd.Empty](t, g, w, envd.ProcSendInput, &envd.SendInputRequest{Process: sel, Input: &envd.ProcessInput{Stdin: []byte("one ")}}))
			in := stock[envd.StreamInputRequest, envd.Empty](g, w, envd.ProcStreamInput).CallClientStream(ctx)
			in.Send(&envd.StreamInputRequest{Start: &envd.StreamInputStart{Process: sel}})
			in.Send(&envd.StreamInputRequest{Keepalive: &envd.Empty{}})
			in.Send(&envd.StreamInputRequest{Data: &envd.StreamInputData{Input: &envd.ProcessInput{Stdin: []byte("two")}}})
			if _, err := in.CloseAndReceive(); err != nil {
				t.Fatal(err)
			}
			must[envd.Empty](t)(call[envd.CloseStdinRequest, envd.Empty](t, g, w, envd.ProcCloseStdin, &envd.CloseStdinRequest{Process: sel}))
			var got string
			var end *envd.EndEvent
			for s.Receive() {
				if d := s.Msg().Event.Data; d != nil {
					got += string(d.Stdout)
				}
				if e := s.Msg().Event.End; e != nil {
					end = e
				}
			}
			if s.Err() != nil || got != "one two" || end == nil || end.ExitCode != 0 {
				t.Errorf("%q %+v %v", got, end, s.Err())
			}
			// A process that ended not long ago still gives its end, without
			// its output: plain envd has no replay.
			late, err := stock[envd.ConnectRequest, envd.ProcessResponse](g, w, envd.ProcConnect).CallServerStream(ctx, connect.NewRequest(&envd.ConnectRequest{Process: sel}))
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for late.Receive() {
				switch ev := late.Msg().Event; {
				case ev.Start != nil:
					kinds = append(kinds, "start")
				case ev.End != nil:
					kinds = append(kinds, "end")
				default:
					kinds = append(kinds, "other")
				}
			}
			if late.Err() != nil || strings.Join(kinds, " ") != "start end" {
				t.Errorf("%v %v", kinds, late.Err())
			}
			if _, err := call[envd.SendSignalRequest, envd.Empty](t, g, w, envd.ProcSendSignal, &envd.SendSignalRequest{Process: sel, Signal: 9}); connect.CodeOf(err) != connect.CodeNotFound {
				t.Errorf("signal after the end: %v", err)
			}
			if _, err := call[envd.SendSignalRequest, envd.Empty](t, g, w, envd.ProcSendSignal, &envd.SendSignalRequest{Process: sel, Signal: 1}); connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("a signal that plain envd does not have: %v", err)
			}
			none := uint32(999999)
			if _, err := call[envd.CloseStdinRequest, envd.Empty](t, g, w, envd.ProcCloseStdin, &envd.CloseStdinRequest{Process: &envd.Selector{PID: &none}}); connect.CodeOf(err) != connect.CodeNotFound {
				t.Errorf("no such process: %v", err)
			}
		})
	}
}

func TestStockClientFiles(t *testing.T) {
	g := startGuest(t, guestOptions{})
	for _, w := range wireCodecs {
		t.Run(w.name, func(t *testing.T) {
			root := filepath.Join(g.cfg.Workspace, w.name)
			type pathReq = envd.PathRequest
			e := must[envd.EntryResponse](t)(call[pathReq, envd.EntryResponse](t, g, w, envd.FSMakeDir, &pathReq{Path: root + "/sub"})).Entry
			if e.Path != root+"/sub" || e.Type != envd.FileTypeDirectory || e.Permissions != "drwxr-xr-x" || e.Mode != 0o755 {
				t.Errorf("%+v", e)
			}
			if _, err := call[pathReq, envd.EntryResponse](t, g, w, envd.FSMakeDir, &pathReq{Path: root}); connect.CodeOf(err) != connect.CodeAlreadyExists {
				t.Errorf("mkdir of a directory: %v", err)
			}
			os.WriteFile(root+"/a", []byte("hello"), 0o644)
			os.Symlink("a", root+"/link")
			if _, err := call[pathReq, envd.EntryResponse](t, g, w, envd.FSMakeDir, &pathReq{Path: root + "/a"}); connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("mkdir of a file: %v", err)
			}
			l := must[envd.EntryResponse](t)(call[pathReq, envd.EntryResponse](t, g, w, envd.FSStat, &pathReq{Path: root + "/link"})).Entry
			if l.SymlinkTarget == nil || *l.SymlinkTarget != root+"/a" || l.Type != envd.FileTypeFile || l.Mode != 0o644 || !strings.HasPrefix(l.Permissions, "L") {
				t.Errorf("%+v", l)
			}
			e = must[envd.EntryResponse](t)(call[envd.MoveRequest, envd.EntryResponse](t, g, w, envd.FSMove, &envd.MoveRequest{Source: root + "/a", Destination: root + "/new/place/b"})).Entry
			if e.Name != "b" || e.Size != 5 || e.ModifiedTime.IsZero() {
				t.Errorf("%+v", e)
			}
			list := must[envd.ListDirResponse](t)(call[envd.ListDirRequest, envd.ListDirResponse](t, g, w, envd.FSListDir, &envd.ListDirRequest{Path: root, Depth: 2}))
			var names []string
			for _, e := range list.Entries {
				names = append(names, strings.TrimPrefix(e.Path, root+"/"))
			}
			if strings.Join(names, " ") != "link new new/place sub" {
				t.Errorf("%v", names)
			}
			// E2B's SDK for Python leaves the depth out.
			if list := must[envd.ListDirResponse](t)(call[envd.ListDirRequest, envd.ListDirResponse](t, g, w, envd.FSListDir, &envd.ListDirRequest{Path: root})); len(list.Entries) != 3 {
				t.Errorf("without a depth: %v", list.Entries)
			}
			for range 2 {
				must[envd.Empty](t)(call[pathReq, envd.Empty](t, g, w, envd.FSRemove, &pathReq{Path: root + "/new"}))
			}
			if _, err := call[pathReq, envd.EntryResponse](t, g, w, envd.FSStat, &pathReq{Path: root + "/new"}); connect.CodeOf(err) != connect.CodeNotFound {
				t.Errorf("stat of nothing: %v", err)
			}
		})
	}
}

func TestStockClientWatch(t *testing.T) {
	g := startGuest(t, guestOptions{})
	w := wireCodecs[1]
	root := g.cfg.Workspace
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(60*time.Second))
	defer cancel()
	s, err := stock[envd.WatchRequest, envd.WatchDirResponse](g, w, envd.FSWatchDir).CallServerStream(ctx, connect.NewRequest(&envd.WatchRequest{Path: root, Recursive: true, IncludeEntry: true}))
	if err != nil || !s.Receive() || s.Msg().Start == nil {
		t.Fatal(err, s.Err())
	}
	poll := must[envd.WatcherID](t)(call[envd.WatchRequest, envd.WatcherID](t, g, w, envd.FSCreateWatcher, &envd.WatchRequest{Path: root}))
	g.mustRun(t, "mkdir d; echo x > d/f; chmod 600 d/f; mv d/f d/g; rm d/g; touch last")
	wanted := map[string]bool{"d CREATE": true, "d/f CREATE": true, "d/f CHMOD": true, "d/f RENAME": true, "d/g CREATE": true, "d/g REMOVE": true}
	names := map[envd.EventType]string{envd.EventCreate: "CREATE", envd.EventWrite: "WRITE", envd.EventRemove: "REMOVE", envd.EventRename: "RENAME", envd.EventChmod: "CHMOD"}
	for s.Receive() {
		ev := s.Msg().Filesystem
		delete(wanted, ev.Name+" "+names[ev.Type])
		if ev.Entry != nil && (ev.Type == envd.EventRemove || ev.Type == envd.EventRename) {
			t.Errorf("an entry with %+v", ev)
		}
		if ev.Name == "last" {
			break
		}
	}
	// The directory may be made, filled and emptied before it is watched; then
	// only its own events are certain.
	for name := range wanted {
		if name == "d CREATE" {
			t.Errorf("never told: %s", name)
		}
	}
	var seen []string
	until(t, "the watcher tells", func() bool {
		out := must[envd.WatcherEvents](t)(call[envd.WatcherID, envd.WatcherEvents](t, g, w, envd.FSGetWatcherEvents, poll))
		for _, e := range out.Events {
			seen = append(seen, e.Name+" "+names[e.Type])
		}
		return slices.Contains(seen, "d CREATE")
	})
	must[envd.Empty](t)(call[envd.WatcherID, envd.Empty](t, g, w, envd.FSRemoveWatcher, poll))
	if _, err := call[envd.WatcherID, envd.WatcherEvents](t, g, w, envd.FSGetWatcherEvents, poll); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("a removed watcher: %v", err)
	}
	for path, code := range map[string]connect.Code{"/no/such": connect.CodeNotFound, "/etc/passwd": connect.CodeInvalidArgument} {
		s, err := stock[envd.WatchRequest, envd.WatchDirResponse](g, w, envd.FSWatchDir).CallServerStream(ctx, connect.NewRequest(&envd.WatchRequest{Path: path}))
		if err == nil {
			s.Receive()
			err = s.Err()
		}
		if connect.CodeOf(err) != code {
			t.Errorf("%s: %v", path, err)
		}
	}
}
