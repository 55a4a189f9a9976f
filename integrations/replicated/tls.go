package replicated

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Credentials are a node's certificate and key, and the authority that has signed those of all nodes.
// They are files in PEM. Reload reads them again; connections that are open stay.
type Credentials struct {
	certFile, keyFile, authorityFile string
	now                              atomic.Pointer[material]
}

type material struct {
	certificate tls.Certificate
	authority   *x509.CertPool
}

// LoadCredentials reads the files.
func LoadCredentials(certFile, keyFile, authorityFile string) (*Credentials, error) {
	c := &Credentials{certFile: certFile, keyFile: keyFile, authorityFile: authorityFile}
	return c, c.Reload()
}

// Reload reads the files again. After an error the credentials are as before.
func (c *Credentials) Reload() error {
	certificate, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return err
	}
	pem, err := os.ReadFile(c.authorityFile)
	if err != nil {
		return err
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM(pem) {
		return fmt.Errorf("replicated: %s has no certificate", c.authorityFile)
	}
	c.now.Store(&material{certificate, authority})
	return nil
}

// config returns the configuration for the next connection. Each side proves that the authority has
// signed its certificate; a server also that it is for the host that was dialled.
func (c *Credentials) config() *tls.Config {
	m := c.now.Load()
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{m.certificate},
		RootCAs: m.authority, ClientCAs: m.authority, ClientAuth: tls.RequireAndVerifyClientCert,
		SessionTicketsDisabled: true, // each connection is checked by the authority of its day
	}
}

// tlsLayer is a raft.StreamLayer of TCP with TLS on both sides.
type tlsLayer struct {
	net.Listener
	credentials *Credentials
	advertise   advertised
}

// advertised is the address by which other nodes reach this one.
type advertised string

// Network implements net.Addr.
func (advertised) Network() string { return "tcp" }

// String implements net.Addr.
func (a advertised) String() string { return string(a) }

// ListenTLS returns the network of a node: it listens on the address bind, and other nodes reach it by
// the address advertise, whose host must be in its certificate; "" = the same. Both sides of each
// connection show a certificate.
func ListenTLS(bind, advertise string, c *Credentials) (raft.StreamLayer, error) {
	if c == nil || c.now.Load() == nil {
		return nil, errors.New("replicated: no credentials")
	}
	l, err := net.Listen("tcp", bind)
	if err != nil {
		return nil, err
	}
	if advertise == "" {
		advertise = l.Addr().String()
	}
	return &tlsLayer{l, c, advertised(advertise)}, nil
}

// Accept implements net.Listener. The handshake is done by the first read.
func (l *tlsLayer) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tls.Server(c, l.credentials.config()), nil
}

// Addr implements net.Listener.
func (l *tlsLayer) Addr() net.Addr { return l.advertise }

// Dial implements raft.StreamLayer.
func (l *tlsLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, "tcp", string(address), l.credentials.config())
}
