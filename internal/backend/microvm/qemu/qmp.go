package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxReply is the maximum size of a reply of QEMU, in bytes.
	maxReply = 256 << 10
	// consoleSize is how much is kept of what the kernel prints, a power of two, in bytes.
	consoleSize = 16 << 10
)

// Client controls a machine. One command is in progress at a time.
type Client struct {
	conn *net.UnixConn
	in   *bufio.Reader

	mu  sync.Mutex
	err error // why it cannot be used any more
}

// reply is a message of QEMU. Events are skipped.
type reply struct {
	QMP    json.RawMessage `json:"QMP"`
	Event  string          `json:"event"`
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Desc string `json:"desc"`
	} `json:"error"`
}

// Connect begins to control a machine. It owns conn, also after an error.
func Connect(ctx context.Context, conn *net.UnixConn) (*Client, error) {
	c := &Client{conn: conn, in: bufio.NewReaderSize(conn, maxReply)}
	err := c.within(ctx, func() error {
		r, err := c.read()
		if err == nil && r.QMP == nil {
			err = errors.New("QEMU did not greet")
		}
		return err
	})
	if err == nil {
		_, err = c.call(ctx, nil, "qmp_capabilities", nil)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// Close closes the connection. The machine continues.
func (c *Client) Close() error { return c.conn.Close() }

// within interrupts do at the end of ctx, after which the client cannot be used.
func (c *Client) within(ctx context.Context, do func() error) error {
	stop := context.AfterFunc(ctx, func() { c.conn.SetDeadline(time.Unix(1, 0)) })
	err := do()
	if !stop() && ctx.Err() != nil {
		err = ctx.Err()
	}
	return err
}

func (c *Client) read() (r reply, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return r, fmt.Errorf("read QEMU's reply: %w", err)
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("parse QEMU's reply: %w", err)
	}
	return r, nil
}

// call executes a command. file, if it is not nil, is sent with it.
func (c *Client) call(ctx context.Context, file *os.File, command string, args any) (json.RawMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	b, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
	}{command, args})
	if err != nil {
		return nil, err
	}
	var oob []byte
	if file != nil {
		oob = unix.UnixRights(int(file.Fd()))
	}
	var r reply
	c.err = c.within(ctx, func() error {
		if _, _, err := c.conn.WriteMsgUnix(append(b, '\n'), oob, nil); err != nil {
			return err
		}
		for {
			var err error
			if r, err = c.read(); err != nil || r.Return != nil || r.Error != nil {
				return err
			}
		}
	})
	if c.err != nil {
		c.err = fmt.Errorf("QEMU's command %s: %w", command, c.err)
		return nil, c.err
	}
	if r.Error != nil {
		return nil, fmt.Errorf("QEMU's command %s: %.300q", command, r.Error.Desc)
	}
	return r.Return, nil
}

// Stop stops the processors of the machine, and Continue starts them again.
func (c *Client) Stop(ctx context.Context) error {
	_, err := c.call(ctx, nil, "stop", nil)
	return err
}

// Continue continues a stopped machine.
func (c *Client) Continue(ctx context.Context) error {
	_, err := c.call(ctx, nil, "cont", nil)
	return err
}

// Running reports whether the processors run.
func (c *Client) Running(ctx context.Context) (bool, error) {
	b, err := c.call(ctx, nil, "query-status", nil)
	if err != nil {
		return false, err
	}
	var s struct{ Running bool }
	return s.Running, json.Unmarshal(b, &s)
}

// Console returns the end of what the kernel of the machine printed.
func (c *Client) Console(ctx context.Context) (string, error) {
	b, err := c.call(ctx, nil, "ringbuf-read", map[string]any{"device": "console", "size": consoleSize})
	if err != nil {
		return "", err
	}
	var s string
	return s, json.Unmarshal(b, &s)
}

// saved is the name of a descriptor in QEMU.
const saved = "saved"

// migrate gets the state of the machine from, or into, a file. shared says that the file of the memory is not part of it.
func (c *Client) migrate(ctx context.Context, command string, file *os.File, shared bool) error {
	_, err := c.call(ctx, nil, "migrate-set-capabilities", map[string]any{"capabilities": []any{
		map[string]any{"capability": "x-ignore-shared", "state": shared},
	}})
	if err == nil && command == "migrate" {
		_, err = c.call(ctx, nil, "migrate-set-parameters", map[string]any{"max-bandwidth": int64(1) << 40})
	}
	if err == nil {
		_, err = c.call(ctx, file, "getfd", map[string]any{"fdname": saved})
	}
	if err == nil {
		_, err = c.call(ctx, nil, command, map[string]any{"uri": "fd:" + saved})
	}
	for wait := time.Millisecond; err == nil; wait = min(2*wait, 50*time.Millisecond) {
		var b json.RawMessage
		var s struct {
			Status string
			Desc   string `json:"error-desc"`
		}
		if b, err = c.call(ctx, nil, "query-migrate", nil); err != nil {
			break
		}
		if err = json.Unmarshal(b, &s); err != nil {
			break
		}
		switch s.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("QEMU's command %s failed: %.300q", command, s.Desc)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// Save writes the state of a stopped machine to a file, without its memory, which is in its file. all says to write the
// memory too, because the file does not have it: the machine was restored.
func (c *Client) Save(ctx context.Context, file *os.File, all bool) error {
	return c.migrate(ctx, "migrate", file, !all)
}

// Restore reads what Save wrote, in a machine that waits for it, and does not start it.
func (c *Client) Restore(ctx context.Context, file *os.File, all bool) error {
	return c.migrate(ctx, "migrate-incoming", file, !all)
}
