package birth

// ArgStdio is the first argument of a guest whose control socket is its standard
// input and output, because it runs on a kernel of its own that gives it no other
// descriptors. Its streams come over that socket too, which stays open for as long
// as it lives: [ListenFD] and [ControlFD] are not there.
const ArgStdio = "stdio"

// Groups is where a guest on a kernel of its own finds version 2 of control groups,
// which it unmounts.
const Groups = "/sys/fs/cgroup"

// Placeholder is a file that such a guest removes at its start. It keeps a kernel
// from taking an empty /tmp for one that wants a file system of its own, which the
// sandbox's bound of disk would not hold.
const Placeholder = "/tmp/.hortus"

// What a host says to such a guest after "go", one packet each.
const (
	// StreamPacket brings one descriptor, a connected stream socket, for the guest
	// to serve. There is no answer.
	StreamPacket = "stream"
	// QuietPacket tells the guest to let go of every stream, at once, because its
	// kernel is about to be saved and can save no descriptor of the host's.
	// Commands go on. The guest answers with a Report that says Quiet when no
	// stream is open any more, and serves none until it hears OnPacket or a Self.
	QuietPacket = "quiet"
	// OnPacket tells the guest to go on as who it is.
	OnPacket = "on"
	// SelfPacket begins a packet, the JSON of a [Self] follows: the guest came from
	// a saved state and is another one from here on. It answers with a Report that
	// says Ready and repeats the Nonce. It may come in the place of "go" too.
	SelfPacket = "self"
)

// Self is who a guest is after it was restored.
type Self struct {
	Sandbox  string `json:"sandbox"`
	Hostname string `json:"hostname"`
	// Env takes the place of Config.Env.
	Env map[string]string `json:"env,omitempty"`
	// Seed is fresh randomness for what is derived from it inside, such as the
	// machine's id: at least 16 bytes.
	Seed []byte `json:"seed"`
	// Nonce comes back in the Report, which tells it from one that was said before
	// the save.
	Nonce string `json:"nonce"`
}
