package guestproxy

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

const (
	// maxExecRequest bounds the one message of a Start or Connect, in bytes.
	maxExecRequest = 2 << 20
	// messageTimeout bounds the wait for it: a client that sent half of it must
	// not hold what its request holds.
	messageTimeout = 30 * time.Second
)

// ExecStream is a command with its record and events. Next returns io.EOF after the end.
// Close ends the reading, not the command. The type is an alias, so that every package can
// declare the same one.
type ExecStream = interface {
	Exec() api.Exec
	Next() (*envd.ProcessEvent, error)
	Close() error
	Ender
}

// ReadMessage reads the one enveloped message of a request, whose body ends with
// it. Errors are of KindInvalid.
func ReadMessage(w http.ResponseWriter, r *http.Request, codec envd.Codec, m envd.Message) error {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(messageTimeout)) // what cannot has bounds of its own
	body := http.MaxBytesReader(w, r.Body, maxExecRequest+16)
	frames := &envd.FrameReader{R: body, Max: maxExecRequest}
	flags, payload, err := frames.Next()
	if err != nil {
		return api.Errorf(api.KindInvalid, "cannot parse the request: %w", err)
	}
	if flags != 0 {
		return api.Errorf(api.KindInvalid, "the request has flags %#x; only plain messages are supported", flags)
	}
	if err := envd.Decode(payload, codec, m); err != nil {
		return api.Errorf(api.KindInvalid, "cannot parse the request: %w", err)
	}
	// The body is read to its end, so that the server sees the client leave.
	var more [1]byte
	if _, err := io.ReadFull(body, more[:]); !errors.Is(err, io.EOF) {
		return api.Errorf(api.KindInvalid, "the request has more than one message")
	}
	_ = rc.SetReadDeadline(time.Time{})
	return nil
}

// The size of a terminal whose client names none.
const defaultCols, defaultRows = 80, 24

// ExecRequest reads what the wire says of a command. Errors are of KindInvalid.
func ExecRequest(r *http.Request, in *envd.StartRequest) (api.ExecRequest, error) {
	if in.Process == nil || in.Process.Cmd == "" {
		return api.ExecRequest{}, api.Errorf(api.KindInvalid, "no command was given")
	}
	req := api.ExecRequest{
		Args: append([]string{in.Process.Cmd}, in.Process.Args...), Env: in.Process.Envs,
		Stdin: in.Stdin == nil || *in.Stdin,
	}
	if in.Process.Cwd != nil {
		req.Dir = *in.Process.Cwd
	}
	if in.Tag != nil {
		req.Tag = *in.Tag
	}
	if in.PTY != nil {
		// A client that has no terminal itself, in a pipe, says 0 by 0 or nothing.
		size := envd.Size{Cols: defaultCols, Rows: defaultRows}
		if s := in.PTY.Size; s != nil {
			size = envd.Size{Cols: cmp.Or(s.Cols, defaultCols), Rows: cmp.Or(s.Rows, defaultRows)}
		}
		if size.Cols > 1<<15 || size.Rows > 1<<15 {
			return req, api.Errorf(api.KindInvalid, "the maximum size of a terminal is 32768 by 32768")
		}
		req.PTY = &api.PTYSize{Cols: uint16(size.Cols), Rows: uint16(size.Rows)}
	}
	if s := r.Header.Get("Connect-Timeout-Ms"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return req, api.Errorf(api.KindInvalid, "timeout %.40q is not a number of milliseconds", s)
		}
		req.TimeoutMS = n
	}
	if s := r.Header.Get(envd.HeaderOutputLimit); s != "" {
		return req, api.Errorf(api.KindInvalid, "the output limit is set when the sandbox is created")
	}
	var err error
	req.User, err = User(r)
	return req, err
}

// User reads the name of who a request acts as inside; empty for the default one.
func User(r *http.Request) (string, error) {
	s := r.Header.Get("Authorization")
	if s == "" {
		return "", nil
	}
	b64, ok := strings.CutPrefix(s, "Basic ")
	b, err := base64.StdEncoding.DecodeString(b64)
	user, _, found := strings.Cut(string(b), ":")
	if !ok || err != nil || !found {
		return "", api.Errorf(api.KindInvalid, "the Authorization header has no user")
	}
	if (Credentials{}).In(user) {
		return "", api.Errorf(api.KindInvalid, "the Authorization header contains an API key instead of a user name").WithHint("send the key in X-API-KEY")
	}
	return user, nil
}

// PingInterval is how long a stream may be silent for its client; 0 for as long as
// it likes.
func PingInterval(r *http.Request) (time.Duration, error) {
	s := r.Header.Get("Keepalive-Ping-Interval")
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 3600 {
		return 0, api.Errorf(api.KindInvalid, "keepalive interval %.20q is not between 1 and 3600 seconds", s)
	}
	return time.Duration(n) * time.Second, nil
}

// Frames writes a stream's frames; the keepalives of a quiet one come from a
// goroutine of their own.
type Frames struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	codec envd.Codec

	mu     sync.Mutex
	buf    []byte
	last   time.Time
	closed bool
	gone   bool // the connection was given back: nothing may be written to it
}

// NewFrames makes a writer of frames into an answer whose headers are set.
func NewFrames(w http.ResponseWriter, codec envd.Codec) *Frames {
	return &Frames{w: w, rc: http.NewResponseController(w), codec: codec, last: time.Now()}
}

// CloseOnDone releases the connection of a client that leaves at once: the command that
// it followed may be silent for as long as it lives. The returned function ends that
// and must be called before the request is done with.
func (f *Frames) CloseOnDone(ctx context.Context) (stop func()) {
	undo := context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.closed {
			return
		}
		if c, _, err := f.rc.Hijack(); err == nil { // elsewhere it ends with the request
			c.Close()
			f.gone = true
		}
	})
	return func() {
		undo()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.closed = true
	}
}

// Event writes an event at once. It is false when the client is gone.
func (f *Frames) Event(ev *envd.ProcessEvent) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	f.buf, err = envd.AppendFrame(f.buf[:0], f.codec, &envd.ProcessResponse{Event: ev})
	if err != nil {
		return false
	}
	return f.write(f.buf)
}

// End writes the stream's last frame; err is nil for a clean end.
func (f *Frames) End(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.write(envd.AppendEnd(nil, envd.FromAPI(err)))
}

func (f *Frames) write(b []byte) bool {
	if f.gone {
		return false
	}
	f.last = time.Now()
	if _, err := f.w.Write(b); err != nil {
		return false
	}
	return f.rc.Flush() == nil
}

// Keepalive writes a keepalive event after each interval of silence. The returned
// function ends that and waits for it.
func (f *Frames) Keepalive(every time.Duration) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every / 2)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			f.mu.Lock()
			silent := time.Since(f.last)
			f.mu.Unlock()
			if silent >= every && !f.Event(&envd.ProcessEvent{Keepalive: &envd.Empty{}}) {
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}
