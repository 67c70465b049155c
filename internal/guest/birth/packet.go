package birth

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Control is one end of the control socket.
type Control struct{ conn net.Conn }

// NewControl returns an end of a control socket for a SOCK_SEQPACKET descriptor. It closes
// f.
func NewControl(f *os.File) (*Control, error) {
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	if network := conn.LocalAddr().Network(); network != "unixpacket" {
		conn.Close()
		return nil, fmt.Errorf("control socket has kind %s, not unixpacket", network)
	}
	return &Control{conn: conn}, nil
}

// Close closes the socket. If that happens before "go", the guest exits.
func (c *Control) Close() error { return c.conn.Close() }

// within runs an exchange and interrupts it when ctx ends.
func (c *Control) within(ctx context.Context, do func() error) error {
	if ctx.Done() == nil {
		return do()
	}
	stop := context.AfterFunc(ctx, func() { c.conn.SetDeadline(time.Unix(1, 0)) })
	err := do()
	if !stop() && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (c *Control) send(ctx context.Context, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.sendRaw(ctx, data)
}

func (c *Control) sendRaw(ctx context.Context, data []byte) error {
	if len(data) > MaxPacket {
		return fmt.Errorf("packet too long: %d bytes, the maximum is %d", len(data), MaxPacket)
	}
	return c.within(ctx, func() error {
		_, err := c.conn.Write(data)
		return err
	})
}

// receive reads one packet of up to limit bytes.
func (c *Control) receive(ctx context.Context, limit int) ([]byte, error) {
	buf := make([]byte, limit+1)
	var n int
	err := c.within(ctx, func() (err error) {
		n, err = c.conn.Read(buf)
		return err
	})
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("packet longer than %d bytes", limit)
	}
	return buf[:n], nil
}

// maxReport is the maximum size of a Report, which comes from a guest, in bytes.
const maxReport = 4 << 10

// Configure sends the host's first packet.
func (c *Control) Configure(ctx context.Context, cfg Config) error { return c.send(ctx, cfg) }

// AwaitReport waits for the guest's report. It returns io.EOF if the guest exited without
// one. A report with Ready unset is not an error.
func (c *Control) AwaitReport(ctx context.Context) (Report, error) {
	var r Report
	data, err := c.receive(ctx, maxReport)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return Report{}, fmt.Errorf("parse the guest's report: %w", err)
	}
	return r, nil
}

// Go sends the host's last packet: the sandbox is recorded and the guest no longer depends
// on the host.
func (c *Control) Go(ctx context.Context) error { return c.sendRaw(ctx, []byte(GoPacket)) }

// Packet returns the packet with which a host claims a guest.
func (cl Claim) Packet() ([]byte, error) {
	if len(cl.Env) == 0 {
		return []byte(GoPacket), nil
	}
	data, err := json.Marshal(cl)
	if err != nil {
		return nil, err
	}
	if data = append([]byte(GoPacket), data...); len(data) > MaxPacket {
		return nil, fmt.Errorf("packet too long: %d bytes, the maximum is %d", len(data), MaxPacket)
	}
	return data, nil
}

// AwaitConfig waits, in the guest, for its configuration.
func (c *Control) AwaitConfig(ctx context.Context) (Config, error) {
	var cfg Config
	data, err := c.receive(ctx, MaxPacket)
	if err != nil {
		return cfg, err
	}
	if err := json.Unmarshal(data, &cfg); err != nil {
		return Config{}, fmt.Errorf("parse configuration: %w", err)
	}
	return cfg, nil
}

// Answer sends the guest's report. It truncates long texts.
func (c *Control) Answer(ctx context.Context, r Report) error {
	if len(r.Error) > 1<<10 {
		r.Error = r.Error[:1<<10]
	}
	if len(r.Stage) > 1<<8 {
		r.Stage = r.Stage[:1<<8]
	}
	return c.send(ctx, r)
}

// AwaitGo waits, in the guest, for the last packet, and returns its claim, or nil if it has
// none. After an error the guest must exit.
func (c *Control) AwaitGo(ctx context.Context) (*Claim, error) {
	data, err := c.receive(ctx, MaxPacket)
	if err != nil {
		return nil, err
	}
	return parseGo(data)
}

// parseGo parses a GoPacket.
func parseGo(data []byte) (*Claim, error) {
	rest, ok := bytes.CutPrefix(data, []byte(GoPacket))
	if !ok {
		return nil, fmt.Errorf("control socket: %w: not %q", io.ErrUnexpectedEOF, GoPacket)
	}
	if len(rest) == 0 {
		return nil, nil
	}
	claim := new(Claim)
	if err := json.Unmarshal(rest, claim); err != nil {
		return nil, fmt.Errorf("parse claim: %w", err)
	}
	return claim, nil
}
