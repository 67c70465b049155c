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

// The descriptors that a guest inherits.
const (
	ListenFD  = 3
	ControlFD = 4
)

// MaxPacket is the maximum size of a packet on the control socket, in bytes.
const MaxPacket = 128 << 10

// Reserve is the number of threads that the guest needs in addition to the limit of
// processes: a Go program dies if it cannot create a thread.
const Reserve = 64

// GoPacket is the last packet of the host; a [Claim] may follow in the same packet.
const GoPacket = "go"

// Claim configures a guest that was started ahead, with its "go".
type Claim struct {
	// Env replaces Config.Env.
	Env map[string]string `json:"env"`
}

// Argv0 is the argument zero with which a multi-call binary runs the guest.
const Argv0 = "hortus-guest"

// Identity is a user that commands may run as.
type Identity struct {
	Name   string   `json:"name"`
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
	Home   string   `json:"home"`
	// Caps are the capability numbers of the identity's commands; an ordinary user has
	// none.
	Caps []uintptr `json:"caps,omitempty"`
}

// Dir is a directory that belongs to a user of the sandbox. The guest makes it if it is
// missing.
type Dir struct {
	Path string `json:"path"`
	Mode uint32 `json:"mode"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
}

// File is a small file, owned by root, that the guest writes at its start.
type File struct {
	Path string `json:"path"`
	Data string `json:"data"`
}

// Default is who runs commands of requests that name no user, and where. Empty fields leave that
// to the configuration.
type Default struct {
	User string `json:"user,omitempty"`
	Dir  string `json:"dir,omitempty"`
	// Own is User, if that is none of the identities. It has no capabilities.
	Own *Identity `json:"own,omitempty"`
}

// Config configures a guest.
type Config struct {
	Sandbox  string `json:"sandbox"`
	Hostname string `json:"hostname"`
	// Identities lists the users; the first is the default. A request for another user is
	// refused with that user's text in WhyNot, or as unknown.
	Identities []Identity        `json:"identities"`
	WhyNot     map[string]string `json:"whyNot,omitempty"`
	// Switch is true if the guest may change ids. If false, every identity must have the
	// guest's ids.
	Switch bool `json:"switch"`
	// Workspace is the directory, which must exist, of commands and relative paths, unless Dir
	// is set.
	Workspace string `json:"workspace"`
	Dir       string `json:"dir,omitempty"`
	// Default is what the sandbox's template says instead of the first identity and of Dir.
	Default Default           `json:"default,omitzero"`
	Path    string            `json:"path"`
	Env     map[string]string `json:"env,omitempty"`
	// Waits is true if the guest is started ahead: until "go" it answers warm-up requests,
	// and other requests wait.
	Waits bool `json:"waits,omitempty"`
	// Processes is the maximum number of processes of commands (RLIMIT_NPROC); 0 means no
	// limit. With Switch, the guest's uid is counted separately, and its limit is at least
	// Reserve.
	Processes int64 `json:"processes,omitempty"`
	// OutputBuffer is the maximum output kept per command, in bytes. It must be positive.
	OutputBuffer int `json:"outputBuffer"`
	// PID1 is true if the guest is the init of a pid namespace in which all other processes
	// are the sandbox's.
	PID1 bool `json:"pid1"`
	// OwnMachine is true if all other processes of the machine are the sandbox's, but the guest is not its init.
	OwnMachine bool `json:"ownMachine,omitempty"`
	// Capture is true if the sandbox's network redirects outgoing connections to CapturePort
	// and DNS queries to ResolverPort. The guest then serves these ports and ProxyPort.
	Capture bool `json:"capture,omitempty"`
	// Memory is the memory limit, in bytes, that the guest enforces by polling (best effort)
	// because its host cannot. 0 means no limit.
	Memory int64 `json:"memory,omitempty"`
	// OwnKernel is true if the guest and its commands have a kernel of their own. There the
	// guest makes the directories of Own and the files of Files, and enforces Processes,
	// which a stage before it does elsewhere.
	OwnKernel bool   `json:"ownKernel,omitempty"`
	Own       []Dir  `json:"own,omitempty"`
	Files     []File `json:"files,omitempty"`
	// Gvisor is true if the kernel is gVisor's, but the container is another runtime's: the guest finds that itself.
	Gvisor bool `json:"-"`
	// CPUs is the share of the processors, which the guest, with OwnKernel, shows to programs;
	// 0 means no limit.
	CPUs float64 `json:"cpus,omitempty"`
	// View says that the guest, with OwnKernel, mounts the Workspace at ViewDir, read-only.
	View bool `json:"view,omitempty"`
}

// Report is the reply of a guest, or of the stage before it.
type Report struct {
	Ready bool   `json:"ready"`
	Error string `json:"error,omitempty"`
	// Stage is the step that failed, for the message.
	Stage string `json:"stage,omitempty"`
	// Errno is the system error of that step, or 0.
	Errno int `json:"errno,omitempty"`
	// Quiet is set in the reply to a QuietPacket, Nonce in the reply to a Self.
	Quiet bool   `json:"quiet,omitempty"`
	Nonce string `json:"nonce,omitempty"`
}

// Outgoing connections of a sandbox end at its guest: whatever sets up the sandbox's network
// redirects every TCP connection to CapturePort and DNS over UDP to ResolverPort, and the
// guest asks its host. Nothing else leaves the loopback interface.
const (
	// CapturePort is where the guest accepts redirected connections, on 127.0.0.1.
	CapturePort = 19817
	// ResolverPort is where the guest answers redirected DNS queries, on 127.0.0.1.
	ResolverPort = 19818
	// ProxyPort is where programs that are configured with an HTTP proxy reach the host's,
	// on 127.0.0.1.
	ProxyPort = 3128
)

// Addresses of a sandbox besides those of 127.0.0.0/8. They are in a range that is reserved
// for tests of network devices and is not routed (RFC 2544). Its other addresses stand for
// names.
const (
	// FakeNetwork contains the addresses that stand for names.
	FakeNetwork = "198.18.0.0/15"
	// OwnAddress is the sandbox's own address, the source of its connections. Connections
	// to it stay in the sandbox.
	OwnAddress = "198.18.0.1"
	// Nameserver is the DNS server of the sandbox.
	Nameserver = "198.18.0.2"
)

// ResolvConf is the sandbox's /etc/resolv.conf. A host that does not answer costs a program
// no more than 2 seconds for each attempt.
const ResolvConf = "nameserver " + Nameserver + "\noptions timeout:2 attempts:2\n"

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

// Send sends a packet of [Claim.Packet].
func (c *Control) Send(ctx context.Context, packet []byte) error { return c.sendRaw(ctx, packet) }

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

// RunDir holds the files from which programs learn in which sandbox they run, as in E2B's
// sandboxes.
const RunDir = "/run/e2b"

// GenerationFile holds 32 hexadecimal digits that no other sandbox has, and that are others after
// each restore: a program that sees others than before is a copy, and its random numbers may be
// those of other copies.
const GenerationFile = "/run/hortus/generation"

// ViewDir is a read-only mount of /workspace, in sandboxes that have one. What is changed at
// /workspace is seen there.
const ViewDir = "/run/hortus-workspace"

// RunFiles returns the files of RunDir. They do not end in a line break.
func RunFiles(sandbox, template string) []File {
	return []File{
		{Path: RunDir + "/.E2B_SANDBOX", Data: "true"},
		{Path: RunDir + "/.E2B_SANDBOX_ID", Data: sandbox},
		{Path: RunDir + "/.E2B_TEMPLATE_ID", Data: template},
	}
}

// ArgStdio is the first argument of a guest whose control socket is its standard
// input and output, because it runs on a kernel of its own that gives it no other
// descriptors. The same socket passes its streams and stays open while the guest
// lives: [ListenFD] and [ControlFD] do not exist.
//
// # Container requirements
//
// With Config.OwnKernel, Switch and PID1, the container of such a guest needs, in the
// terms of the OCI specification and of runsc's flags:
//
//	process.args             [the guest's path, "stdio"]; the path ends in Argv0 if
//	                         the program is a multi-call binary
//	process.user             a uid and gid of its own, not 0 and not an identity's
//	process.noNewPrivileges  true
//	process.capabilities     OwnKernelCaps, and those of the identities, as permitted,
//	                         effective, inheritable and ambient; the bounding set may
//	                         be empty, which saves 40 system calls per thread
//	standard input, output   the control socket, at the start and after a restore;
//	                         standard error is the host's choice, and shows a panic
//	linux.namespaces         pid, mount, uts, ipc, network; no cgroup, no user
//	mounts                   proc at /proc, devpts at /dev/pts, and one of the type
//	                         "cgroup" at Groups, writable
//	--in-sandbox-cgroup=v2   a group with a limit stops fork bombs
//	--overlay2=root:memory   or another writable root: the guest makes Own and Files,
//	                         and, for a Self, writes /etc/hostname, hosts,
//	                         machine-id, GenerationFile and the files of RunDir
//
// The guest unmounts Groups and bind-mounts its own root there. Its commands are
// chrooted to that mount, because a process in a chroot cannot create a user namespace.
// At the same path they see their own control group, read-only, with their limits.
const ArgStdio = "stdio"

// Groups is where a guest on a kernel of its own finds cgroup v2.
const Groups = "/sys/fs/cgroup"

// Placeholder is a file that the guest removes at its start. It keeps a kernel from
// mounting a file system of its own on an empty /tmp, which the sandbox's disk limit would
// not cover.
const Placeholder = "/tmp/.hortus"

// Packets of the host to a guest on a kernel of its own, besides "go". They may be sent at
// any time after the Config: a guest that is started ahead is warmed up and saved before
// "go".
const (
	// StreamPacket carries one descriptor, a connected stream socket for the guest to
	// serve. There is no reply.
	StreamPacket = "stream"
	// QuietPacket orders the guest to close every stream at once, because its kernel will
	// be saved and cannot save descriptors of the host. Commands continue. When no stream is
	// open, the guest answers with a Report that sets Quiet. It accepts no stream until an
	// OnPacket or a Self.
	QuietPacket = "quiet"
	// OnPacket orders the guest to serve again.
	OnPacket = "on"
	// SelfPacket begins a packet with the JSON of a [Self]: the guest was restored and is
	// another sandbox now. The guest answers with a Report that sets Ready and repeats the
	// Nonce. A Self may replace "go".
	SelfPacket = "self"
)

// Self is the new identity of a guest that was restored.
type Self struct {
	Sandbox  string `json:"sandbox"`
	Hostname string `json:"hostname"`
	// Template is the name of the template, for RunFiles.
	Template string `json:"template,omitempty"`
	// Env replaces Config.Env.
	Env map[string]string `json:"env,omitempty"`
	// Default replaces Config.Default.
	Default Default `json:"default,omitzero"`
	// Seed is fresh randomness, at least 16 bytes. The guest derives the generation, the
	// machine id and the boot id from it.
	Seed []byte `json:"seed"`
	// Nonce is repeated in the Report, to distinguish it from one that was sent before the
	// save.
	Nonce string `json:"nonce"`
}

// ArgRemote is the first argument of a guest on another machine, which was put there by the API of a service and is
// reached over the network; see package tunnel. The second one is the path of a file with the JSON of a [Remote], which
// the guest removes. There is no control socket: the guest serves at once.
const ArgRemote = "remote"

// RemoteReady is the line that such a guest prints when it listens.
const RemoteReady = "hortus-guest: ready"

// Remote configures a guest on another machine. Commands have the uid of the guest.
type Remote struct {
	// Config is completed by the guest, which knows its user: Identities, Switch and PID1 are not used.
	Config Config `json:"config"`
	// Filters are the seccomp programs, by Go's names of architectures, that a guest installs for itself and its commands if
	// its container has no such filter. They need no_new_privs. A guest whose architecture is missing fails.
	Filters map[string][]byte `json:"filters,omitempty"`
	// Token is what both ends of a stream prove to know.
	Token []byte `json:"token"`
	// Port is the TCP port to listen on.
	Port int `json:"port"`
}

// ArgCopy is the first argument of a guest that copies its own executable to the path in the second one, and makes the
// directories in the others, which then belong to its user.
const ArgCopy = "copy"

// ArgDial is the first argument of a guest that connects to its host, because the host cannot connect to it; see package
// dialout. The environment variable [DialVariable] has the JSON of a [Dial].
const ArgDial = "dial"

// DialVariable has the JSON of a [Dial]. Everybody who can read the description of the guest's container can read it.
const DialVariable = "HORTUS_GUEST"

// Dial is what a guest needs to know to connect to its host.
type Dial struct {
	// Address is the IP address and the port of the host.
	Address string `json:"address"`
	// Pin is the SHA-256 of the public key of the host's certificate, in hexadecimal.
	Pin string `json:"pin"`
	// Name is the guest's.
	Name string `json:"name"`
	// Ticket is a secret that the host accepts once: for the guest's configuration.
	Ticket string `json:"ticket"`
	// Denied are addresses that a network policy has to make unreachable. The guest tells its host which it reaches.
	Denied []string `json:"denied,omitempty"`
	// Patience is the number of seconds without its host after which the guest ends.
	Patience int `json:"patience"`
}
