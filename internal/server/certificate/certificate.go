package certificate

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"hortus.dev/api"
)

// Config says where the certificate comes from: from CertFile and KeyFile, or, for Names, from ACME.
type Config struct {
	// CertFile and KeyFile are PEM files: the certificate with its intermediate ones, and its key.
	CertFile, KeyFile string
	// Names are the host names that ACME obtains certificates for. Email is where the authority sends
	// notices; it may be empty. Directory is the URL of the authority; empty means Let's Encrypt. CAFile
	// has the certificate authorities of that URL, if this machine does not know them.
	Names                    []string
	Email, Directory, CAFile string
	// Cache is the directory of ACME's account and certificates. It is created when it is needed.
	Cache  string
	Logger *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Enabled reports whether a certificate is configured.
func (c Config) Enabled() bool { return c.CertFile != "" || c.KeyFile != "" || len(c.Names) > 0 }

// Source is where a listener's certificate comes from.
type Source struct {
	cfg  Config
	acme *autocert.Manager // nil for files

	mu     sync.Mutex
	cert   *tls.Certificate
	read   stamp     // of the files of cert
	looked time.Time // when the files were last looked at
	logged time.Time // when a failure was last logged
	warned time.Time // when the end of cert was last warned of
}

// stamp changes when a file is written or replaced.
type stamp [2]struct {
	at   time.Time
	size int64
}

const (
	// lookEvery is the least time between two looks at the files, and logEvery between two lines of the log about
	// failures. Before its end a certificate is warned of for a time of warnBefore, with a line each warnEvery.
	lookEvery  = 2 * time.Second
	logEvery   = time.Minute
	warnBefore = 7 * 24 * time.Hour
	warnEvery  = 24 * time.Hour
)

// Open checks the configuration, and reads the files if it names some.
func Open(cfg Config) (*Source, error) {
	s := &Source{cfg: cfg}
	s.cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		s.cfg.Now = time.Now
	}
	switch {
	case len(cfg.Names) > 0 && (cfg.CertFile != "" || cfg.KeyFile != ""):
		return nil, api.Errorf(api.KindInvalid, "both serve.acme-names and serve.tls-cert are set").WithHint("set one of them")
	case len(cfg.Names) > 0:
		return s, s.openACME()
	case cfg.CertFile == "" || cfg.KeyFile == "":
		return nil, api.Errorf(api.KindInvalid, "only one of serve.tls-cert and serve.tls-key is set").WithHint("set both: the file with the certificate and the file with its key")
	}
	cert, read, err := s.load()
	if err != nil {
		return nil, err
	}
	s.use(cert, read)
	return s, nil
}

// TLS returns the configuration of a listener. It offers HTTP/2.
func (s *Source) TLS() *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: s.get}
	if s.acme != nil {
		cfg.NextProtos = append(cfg.NextProtos, acme.ALPNProto)
	}
	return cfg
}

// Name returns a host name of the certificate that is not a wildcard; "" if there is none.
func (s *Source) Name() string {
	names := s.cfg.Names
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cert != nil {
		names = s.cert.Leaf.DNSNames
	}
	for _, n := range names {
		if !strings.HasPrefix(n, "*.") {
			return n
		}
	}
	return ""
}

// Covers reports whether the certificate is valid for a host name.
func (s *Source) Covers(name string) bool {
	if s.acme != nil {
		return slices.Contains(s.cfg.Names, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cert.Leaf.VerifyHostname(name) == nil
}

// HTTP answers the questions that an ACME authority asks over HTTP, on port 80, and passes everything else on to next.
func (s *Source) HTTP(next http.Handler) http.Handler {
	if s.acme == nil {
		return next
	}
	return s.acme.HTTPHandler(next)
}

func (s *Source) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if s.acme == nil {
		return s.current(), nil
	}
	cert, err := s.acme.GetCertificate(hello)
	// A client that asks for another name is not this server's failure.
	if name := strings.TrimSuffix(strings.ToLower(hello.ServerName), "."); err != nil && s.acme.HostPolicy(hello.Context(), name) == nil {
		s.warn("cannot obtain a certificate", "name", name, "error", err,
			"next", "port 443 of this name must lead to serve.listen, or port 80 to serve.redirect-listen; the authority retries are limited")
	}
	return cert, err
}

// warn logs a failure, not more than once in a while: clients can cause it.
func (s *Source) warn(message string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.cfg.Now(); now.Sub(s.logged) >= logEvery {
		s.logged = now
		s.cfg.Logger.Warn(message, args...)
	}
}

// current returns the certificate of the files, which it reads again if they changed.
func (s *Source) current() *tls.Certificate {
	s.mu.Lock()
	now := s.cfg.Now()
	look := now.Sub(s.looked) >= lookEvery
	if look {
		s.looked = now
	}
	cert, read := s.cert, s.read
	soon := look && cert.Leaf.NotAfter.Sub(now) < warnBefore && now.Sub(s.warned) >= warnEvery
	if soon {
		s.warned = now
	}
	s.mu.Unlock()
	if soon {
		s.cfg.Logger.Warn("the certificate expires soon, or has expired", "file", s.cfg.CertFile, "until", cert.Leaf.NotAfter, "next", "renew it; the new files are read without a restart")
	}
	if !look || s.stamp() == read {
		return cert
	}
	next, stamp, err := s.load()
	if err != nil {
		s.warn("the changed certificate is not used; the last one stays in use", "error", err, "next", api.HintOf(err))
		return cert
	}
	s.cfg.Logger.Info("a new certificate is used", "file", s.cfg.CertFile, "until", next.Leaf.NotAfter)
	s.use(next, stamp)
	return next
}

// use puts a certificate into use.
func (s *Source) use(cert *tls.Certificate, read stamp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cert, s.read = cert, read
}

func (s *Source) stamp() (all stamp) {
	for i, file := range []string{s.cfg.CertFile, s.cfg.KeyFile} {
		if st, err := os.Stat(file); err == nil {
			all[i].at, all[i].size = st.ModTime(), st.Size()
		}
	}
	return all
}

// load reads and checks the files.
func (s *Source) load() (*tls.Certificate, stamp, error) {
	read := s.stamp() // before the reading: a change during it is seen at the next look
	certPEM, err := readFile("serve.tls-cert", s.cfg.CertFile)
	if err != nil {
		return nil, read, err
	}
	keyPEM, err := readFile("serve.tls-key", s.cfg.KeyFile)
	if err != nil {
		return nil, read, err
	}
	if st, err := os.Stat(s.cfg.KeyFile); err == nil && st.Mode().Perm()&0o007 != 0 {
		return nil, read, api.Errorf(api.KindDenied, "serve.tls-key: every user can read %s", s.cfg.KeyFile).WithHint("chmod 600 %s", s.cfg.KeyFile)
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, read, api.Errorf(api.KindInvalid, "%s and %s are not a certificate and its key: %w", s.cfg.CertFile, s.cfg.KeyFile, err).
			WithHint("both are PEM; the certificate comes first in its file, then the intermediate ones; the key has no passphrase")
	}
	switch now := s.cfg.Now(); {
	case now.After(cert.Leaf.NotAfter):
		return nil, read, api.Errorf(api.KindInvalid, "the certificate in %s expired on %s", s.cfg.CertFile, cert.Leaf.NotAfter.Format(time.DateOnly)).WithHint("renew it")
	case now.Before(cert.Leaf.NotBefore):
		return nil, read, api.Errorf(api.KindInvalid, "the certificate in %s is not valid before %s", s.cfg.CertFile, cert.Leaf.NotBefore.Format(time.DateTime)).WithHint("check the clock of this machine")
	}
	return &cert, read, nil
}

// maxFile bounds a PEM file.
const maxFile = 1 << 20

func readFile(setting, file string) ([]byte, error) {
	st, err := os.Stat(file)
	if err == nil && (!st.Mode().IsRegular() || st.Size() > maxFile) {
		return nil, api.Errorf(api.KindInvalid, "%s: %s is not a PEM file", setting, file)
	}
	data, err := os.ReadFile(file)
	if err == nil {
		return data, nil
	}
	hint := "check the path"
	if errors.Is(err, fs.ErrPermission) {
		hint = "the user of the daemon must be able to read it: change its group and mode (chgrp, chmod 640), or copy it where that user can read it"
	}
	return nil, api.Errorf(api.KindDenied, "%s: %w", setting, err).WithHint("%s", hint)
}

// openACME prepares the client of ACME. It sends nothing yet.
func (s *Source) openACME() error {
	for _, name := range s.cfg.Names {
		if strings.HasPrefix(name, "*.") {
			return api.Errorf(api.KindInvalid, "serve.acme-names: %.100q is a wildcard, which needs records in DNS", name).
				WithHint("obtain the certificate with a client of your DNS provider, and set serve.tls-cert and serve.tls-key: renewed files are read without a restart")
		}
		if u, err := url.Parse("https://" + name); err != nil || u.Host != name || name != strings.ToLower(name) || !strings.Contains(name, ".") || strings.Contains(name, ":") || net.ParseIP(name) != nil {
			return api.Errorf(api.KindInvalid, "serve.acme-names: %.100q is not a host name", name).WithHint("for example hortus.example.org, in lower case, without a port")
		}
	}
	client := &acme.Client{DirectoryURL: cmp.Or(s.cfg.Directory, acme.LetsEncryptURL), UserAgent: "hortus"}
	if u, err := url.Parse(client.DirectoryURL); err != nil || u.Scheme != "https" || u.Host == "" {
		return api.Errorf(api.KindInvalid, "serve.acme-directory: %.200q is not an https URL", client.DirectoryURL)
	}
	if s.cfg.CAFile != "" {
		data, err := readFile("serve.acme-ca-file", s.cfg.CAFile)
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data) {
			return api.Errorf(api.KindInvalid, "serve.acme-ca-file: %s has no certificate in PEM", s.cfg.CAFile)
		}
		client.HTTPClient = &http.Client{Timeout: time.Minute, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	}
	s.acme = &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(s.cfg.Cache), HostPolicy: autocert.HostWhitelist(s.cfg.Names...),
		Email: s.cfg.Email, Client: client,
	}
	return nil
}
