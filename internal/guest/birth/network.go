package birth

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
