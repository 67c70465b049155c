package inside

import "hortus.dev/internal/guest/birth"

// Argv0 is the argv[0] of the first process, and its path in the initial file system. ModuleDir contains the modules, in
// the order of their names.
const (
	Argv0     = "/hortus-vm"
	ModuleDir = "/modules"
)

// PortName is the name of the serial port of the link.
const PortName = "hortus"

// The serial numbers of disks: those of layers end in their number, the lowest first.
const (
	LayerDisk = "layer"
	UpperDisk = "upper"
)

// Plan is the host's first packet.
type Plan struct {
	// Layers is the number of disks with layers.
	Layers int `json:"layers"`
	// ShmBytes is the maximum size of /dev/shm.
	ShmBytes int64 `json:"shmBytes"`
	// Config is that of the guest.
	Config birth.Config `json:"config"`
}

// Message is a packet to the host. One field is set.
type Message struct {
	// Report is that of the guest, or says what failed before the guest was started.
	Report *birth.Report `json:"report,omitempty"`
	// Ended says how the guest ended.
	Ended string `json:"ended,omitempty"`
}
