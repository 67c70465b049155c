package trust

// Dir contains the files of this package whose paths do not depend on the sandbox's system.
const Dir = "/etc/ssl/hortus"

const (
	// AuthorityFile contains only the certificates of the authority. It exists while the
	// sandbox trusts one.
	AuthorityFile = Dir + "/ca.pem"
	// BundleFile contains the system's roots and those certificates. It is a link to the
	// first of bundles that could be changed, so that it also has what users add to that
	// one. If there is none, it is a file with the authority alone.
	BundleFile = Dir + "/bundle.pem"
)

// variables are set for commands because these programs do not read the system's stores. The
// other programs that are tested need none: curl, wget, git, cargo, openssl, Go, Java, and the
// modules of Python itself (case trust/stores-of-the-system). With these three, pip, boto3 and
// npm need no PIP_CERT, AWS_CA_BUNDLE, CURL_CA_BUNDLE or cafile.
var variables = []struct{ name, path, reason string }{
	{"SSL_CERT_FILE", BundleFile, "uv and httpx have roots of their own, and document this variable; they are not tested"},
	{"REQUESTS_CA_BUNDLE", BundleFile, "requests, pip and boto3 have the roots of certifi or a copy of them"},
	{"NODE_EXTRA_CA_CERTS", AuthorityFile, "Node.js, and so npm, has roots of its own, to which it adds this file"},
}

// bundles are files with trusted certificates in PEM. BundleFile is a link to the first one.
// Other usual names are links to these.
var bundles = []string{
	defaultBundle,
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora and Red Hat
	"/etc/ca-certificates/extracted/tls-ca-bundle.pem",  // Arch
	"/var/lib/ca-certificates/ca-bundle.pem",            // SUSE
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Amazon, old Red Hat
	"/etc/pki/tls/cert.pem",                             // the same
	"/etc/ssl/ca-bundle.pem",                            // old SUSE
	"/etc/ssl/cert.pem",                                 // Alpine
}

// defaultBundle is the bundle of Debian and Alpine. It is made if there is no bundle: curl, git
// and GnuTLS of these systems fail without it.
const defaultBundle = "/etc/ssl/certs/ca-certificates.crt"

// directories are those in which OpenSSL finds certificates by the hash of their subject.
var directories = []string{
	"/etc/ssl/certs",                   // Debian, Alpine, Arch
	"/var/lib/ca-certificates/pem",     // SUSE
	"/var/lib/ca-certificates/openssl", // SUSE
}

// anchors are directories of the sources from which update-ca-trust, update-ca-certificates
// and trust make bundles.
var anchors = []string{
	"/etc/pki/ca-trust/source/anchors",          // Fedora and Red Hat
	"/etc/pki/trust/anchors",                    // SUSE
	"/etc/ca-certificates/trust-source/anchors", // Arch
}

// hookFile is run by update-ca-certificates of Debian and Alpine after it has made
// defaultBundle again. Its source is in /usr, which can be read-only.
const (
	hookFile = "/etc/ca-certificates/update.d/hortus-sandbox"
	hook     = "#!/bin/sh\n" +
		"# The bundle was made again: add the certificate authority of this sandbox.\n" +
		"[ ! -r " + AuthorityFile + " ] || cat " + AuthorityFile + " >>" + defaultBundle + "\n"
)

// keystores are the trust stores of Java.
var keystores = []string{
	"/etc/ssl/certs/java/cacerts",                     // Debian, Alpine
	"/etc/pki/ca-trust/extracted/java/cacerts",        // Fedora and Red Hat
	"/etc/pki/java/cacerts",                           // a link to it, or a file
	"/etc/ca-certificates/extracted/java-cacerts.jks", // Arch
	"/var/lib/ca-certificates/java-cacerts",           // SUSE
	"/opt/java/openjdk/lib/security/cacerts",          // the images of Eclipse Temurin
}
