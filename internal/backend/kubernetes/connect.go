package kubernetes

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"hortus.dev/api"
	"hortus.dev/internal/backend/remote"
)

// inCluster has the files of a pod's service account.
const inCluster = "/var/run/secrets/kubernetes.io/serviceaccount"

// server is how the API server is reached.
type server struct {
	url *url.URL
	tls *tls.Config
	// token returns a bearer token; nil if the client has a certificate.
	token func(ctx context.Context) (string, error)
}

// kubeconfig is the part of a kubeconfig that is used. Plugins that run programs to log in are not.
type kubeconfig struct {
	CurrentContext string `yaml:"current-context"`
	Contexts       []struct {
		Name    string
		Context struct{ Cluster, User string }
	}
	Clusters []struct {
		Name    string
		Cluster struct {
			Server    string
			CA        string `yaml:"certificate-authority"`
			CAData    string `yaml:"certificate-authority-data"`
			Insecure  bool   `yaml:"insecure-skip-tls-verify"`
			ProxyURL  string `yaml:"proxy-url"`
			TLSServer string `yaml:"tls-server-name"`
		}
	}
	Users []struct {
		Name string
		User struct {
			Token        string
			TokenFile    string `yaml:"tokenFile"`
			Cert         string `yaml:"client-certificate"`
			CertData     string `yaml:"client-certificate-data"`
			Key          string `yaml:"client-key"`
			KeyData      string `yaml:"client-key-data"`
			Exec         any
			AuthProvider any `yaml:"auth-provider"`
		}
	}
}

// find returns how the API server is reached: by a kubeconfig, or by the service account of this pod.
func find(file string) (server, error) {
	if file != "" {
		s, err := readKubeconfig(file)
		if err != nil {
			return server{}, api.Errorf(api.KindInvalid, "kubernetes.kubeconfig: %s: %w", file, err)
		}
		return s, nil
	}
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return server{}, api.Errorf(api.KindInvalid, "this process is not in a pod of a cluster").WithHint("set kubernetes.kubeconfig")
	}
	ca, err := os.ReadFile(filepath.Join(inCluster, "ca.crt"))
	if err != nil {
		return server{}, api.Errorf(api.KindInvalid, "this pod has no service account: %w", err).WithHint("set automountServiceAccountToken, or kubernetes.kubeconfig")
	}
	s := server{url: &url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)}, tls: &tls.Config{MinVersion: tls.VersionTLS12}, token: fileToken(filepath.Join(inCluster, "token"))}
	return s, s.trust(ca)
}

// trust makes these certificates the only authorities.
func (s *server) trust(ca []byte) error {
	s.tls.RootCAs = x509.NewCertPool()
	if !s.tls.RootCAs.AppendCertsFromPEM(ca) {
		return errors.New("the certificate authority of the cluster is no PEM certificate")
	}
	return nil
}

// fileToken reads the file before each request: the kubelet replaces it.
func fileToken(file string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		b, err := os.ReadFile(file)
		if err != nil {
			return "", api.Errorf(api.KindUnauthenticated, "read the token of the cluster: %w", err)
		}
		return strings.TrimSpace(string(b)), nil
	}
}

func readKubeconfig(file string) (s server, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	return parseKubeconfig(text, filepath.Dir(file))
}

// parseKubeconfig reads the current context. Paths are relative to dir.
func parseKubeconfig(text []byte, dir string) (s server, err error) {
	var k kubeconfig
	if err := yaml.Unmarshal(text, &k); err != nil {
		return s, err
	}
	var cluster, user string
	for _, c := range k.Contexts {
		if c.Name == k.CurrentContext {
			cluster, user = c.Context.Cluster, c.Context.User
		}
	}
	if cluster == "" {
		return s, fmt.Errorf("it has no context %.100q", k.CurrentContext)
	}
	s.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	for _, c := range k.Clusters {
		if c.Name != cluster {
			continue
		}
		if c.Cluster.Insecure || c.Cluster.ProxyURL != "" {
			return s, errors.New("insecure-skip-tls-verify and proxy-url are not supported")
		}
		if s.url, err = remote.ParseURL(c.Cluster.Server); err != nil {
			return s, err
		}
		s.tls.ServerName = c.Cluster.TLSServer
		if ca, err := data(c.Cluster.CAData, c.Cluster.CA, dir); err != nil {
			return s, err
		} else if len(ca) > 0 {
			if err := s.trust(ca); err != nil {
				return s, err
			}
		}
	}
	if s.url == nil {
		return s, fmt.Errorf("it has no cluster %.100q", cluster)
	}
	for _, u := range k.Users {
		if u.Name != user {
			continue
		}
		if u.User.Exec != nil || u.User.AuthProvider != nil {
			return s, errors.New("users with exec or auth-provider are not supported: use a token or a certificate")
		}
		cert, err := data(u.User.CertData, u.User.Cert, dir)
		if err != nil {
			return s, err
		}
		key, err := data(u.User.KeyData, u.User.Key, dir)
		if err != nil {
			return s, err
		}
		switch {
		case u.User.TokenFile != "":
			s.token = fileToken(within(dir, u.User.TokenFile))
		case u.User.Token != "":
			s.token = func(context.Context) (string, error) { return u.User.Token, nil }
		}
		if len(cert) > 0 {
			pair, err := tls.X509KeyPair(cert, key)
			if err != nil {
				return s, err
			}
			s.tls.Certificates = []tls.Certificate{pair}
		}
	}
	if s.token == nil && len(s.tls.Certificates) == 0 {
		return s, fmt.Errorf("the user %.100q has neither a token nor a certificate", user)
	}
	if s.url.Scheme != "https" {
		return s, errors.New("the server's address is not https")
	}
	return s, nil
}

// data is the content of a field, or of a file.
func data(text, file, dir string) ([]byte, error) {
	if text != "" || file == "" {
		return base64.StdEncoding.DecodeString(text)
	}
	return os.ReadFile(within(dir, file))
}

func within(dir, file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}

// address is the host and the port of the API server.
func (s server) address() string {
	return net.JoinHostPort(s.url.Hostname(), cmp.Or(s.url.Port(), "443"))
}
