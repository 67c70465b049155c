package birth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// minSeed is the minimum size of a seed, in bytes.
const minSeed = 16

// Order is a packet of the host to a guest that was started with [ArgStdio], after its
// Config. Exactly one field is set.
type Order struct {
	Go     bool // with Claim, if the packet has one
	Claim  *Claim
	Stream *os.File // a connected stream socket; the receiver closes it
	Quiet  bool
	On     bool
	Self   *Self
}

// AwaitOrder waits, in the guest, for the host's next packet. It returns io.EOF if the host
// closed the socket. After any other error the guest must exit: the host is trusted, so an
// invalid packet is a bug.
func (c *Control) AwaitOrder(ctx context.Context) (Order, error) {
	data, files, err := c.receiveFiles(ctx)
	if err != nil {
		return Order{}, err
	}
	if string(data) == StreamPacket && len(files) == 1 {
		return Order{Stream: files[0]}, nil
	}
	for _, f := range files {
		f.Close()
	}
	if len(files) > 0 || string(data) == StreamPacket {
		return Order{}, fmt.Errorf("control socket: unexpected packet with %d file descriptors", len(files))
	}
	return parseOrder(data)
}

// parseOrder parses a packet without descriptors.
func parseOrder(data []byte) (Order, error) {
	switch string(data) {
	case QuietPacket:
		return Order{Quiet: true}, nil
	case OnPacket:
		return Order{On: true}, nil
	}
	if rest, ok := bytes.CutPrefix(data, []byte(SelfPacket)); ok {
		self := new(Self)
		if err := json.Unmarshal(rest, self); err != nil {
			return Order{}, fmt.Errorf("parse self: %w", err)
		}
		if len(self.Seed) < minSeed || self.Sandbox == "" || self.Hostname == "" {
			return Order{}, errors.New("self needs a sandbox, a hostname and a seed of at least 16 bytes")
		}
		return Order{Self: self}, nil
	}
	claim, err := parseGo(data)
	return Order{Go: err == nil, Claim: claim}, err
}

// receiveFiles reads one packet and its descriptors, which are close-on-exec.
func (c *Control) receiveFiles(ctx context.Context) ([]byte, []*os.File, error) {
	conn, ok := c.conn.(*net.UnixConn)
	if !ok {
		return nil, nil, errors.New("the control socket cannot pass file descriptors")
	}
	buf := make([]byte, MaxPacket+1)
	oob := make([]byte, unix.CmsgSpace(4*4))
	var n, oobn, flags int
	err := c.within(ctx, func() (err error) {
		n, oobn, flags, _, err = conn.ReadMsgUnix(buf, oob)
		return err
	})
	if errors.Is(err, io.EOF) {
		err = io.EOF
	}
	if err != nil {
		return nil, nil, err
	}
	var files []*os.File
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	for _, m := range msgs {
		fds, rerr := unix.ParseUnixRights(&m)
		err = errors.Join(err, rerr)
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "stream"))
		}
	}
	switch {
	case err != nil:
	case n == 0:
		err = io.EOF
	case n > MaxPacket || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = fmt.Errorf("packet longer than %d bytes or with too many file descriptors", MaxPacket)
	default:
		return buf[:n], files, nil
	}
	for _, f := range files {
		f.Close()
	}
	return nil, nil, err
}

// Stream passes a connected stream socket to the guest. The host calls it. The caller still
// owns f and closes it.
func (c *Control) Stream(ctx context.Context, f *os.File) error {
	conn, ok := c.conn.(*net.UnixConn)
	if !ok {
		return errors.New("the control socket cannot pass file descriptors")
	}
	return c.within(ctx, func() error {
		raw, err := f.SyscallConn()
		if err != nil {
			return err
		}
		if cerr := raw.Control(func(fd uintptr) {
			_, _, err = conn.WriteMsgUnix([]byte(StreamPacket), unix.UnixRights(int(fd)), nil)
		}); cerr != nil {
			return cerr
		}
		return err
	})
}

// Quiet makes the guest close every stream, and waits until it has. The host calls it.
func (c *Control) Quiet(ctx context.Context) error {
	if err := c.sendRaw(ctx, []byte(QuietPacket)); err != nil {
		return err
	}
	r, err := c.AwaitReport(ctx)
	if err == nil && !r.Quiet {
		err = fmt.Errorf("the guest did not quiesce: %s", r.Error)
	}
	return err
}

// On makes a quiet guest serve again. The host calls it.
func (c *Control) On(ctx context.Context) error { return c.sendRaw(ctx, []byte(OnPacket)) }

// Become sends a restored guest its new identity and waits until the guest is ready. The
// host calls it. It skips reports with another nonce, which were sent before the save.
func (c *Control) Become(ctx context.Context, self Self) error {
	data, err := json.Marshal(self)
	if err != nil {
		return err
	}
	if err := c.sendRaw(ctx, append([]byte(SelfPacket), data...)); err != nil {
		return err
	}
	for {
		r, err := c.AwaitReport(ctx)
		switch {
		case err != nil:
			return err
		case r.Nonce != self.Nonce:
			continue
		case !r.Ready:
			return fmt.Errorf("the guest could not apply the restored sandbox's identity: %s: %s", r.Stage, r.Error)
		}
		return nil
	}
}
