package env

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"seckill/test/env/servers"
)

// Certificates are a certificate for 127.0.0.1, which is its own authority, and its key, in files.
type Certificates struct {
	CAFile string // in PEM

	keyFile string
}

// NewCertificates creates files that are removed at cleanup.
func NewCertificates(tb testing.TB) Certificates {
	tb.Helper()
	certificate := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "test Redis"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	need(tb, err)
	certificateDER, err := x509.CreateCertificate(rand.Reader, certificate, certificate, key.Public(), key)
	need(tb, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	need(tb, err)

	dir := tb.TempDir()
	c := Certificates{filepath.Join(dir, "ca.pem"), filepath.Join(dir, "key.pem")}
	need(tb, os.WriteFile(c.CAFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificateDER}), 0o600))
	need(tb, os.WriteFile(c.keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	return c
}

// StartTLSRedis starts a private Redis that also listens with TLS, and stops it at cleanup. args are as in StartRedis.
func StartTLSRedis(tb testing.TB, c Certificates, args ...string) *Redis {
	tb.Helper()
	addr, settings := c.listen(tb)
	r := StartRedis(tb, append(settings, args...)...)
	r.Announced = addr
	return r
}

// StartTLSRedisCluster is StartRedisCluster with nodes that use TLS between each other.
func StartTLSRedisCluster(tb testing.TB, c Certificates) *servers.RedisCluster {
	tb.Helper()
	return startCluster(tb, c.starter(tb), "--tls-cluster", "yes")
}

// StartTLSRedisSentinel is StartRedisSentinel with servers that use TLS between each other.
func StartTLSRedisSentinel(tb testing.TB, c Certificates, downAfter time.Duration) *servers.RedisSentinel {
	tb.Helper()
	return startSentinel(tb, downAfter, c.starter(tb))
}

func (c Certificates) starter(tb testing.TB) servers.RedisStarter {
	return func(ctx context.Context, run servers.RedisRunner, args ...string) (*servers.Redis, error) {
		addr, settings := c.listen(tb) //nolint:contextcheck // the address is reserved until the end of the test
		r, err := run(ctx, append(settings, args...)...)
		if err == nil {
			r.Announced = addr
		}
		return r, err
	}
}

// listen reserves an address until cleanup and returns it with the arguments for a redis-server that listens there with
// TLS, and uses TLS for replication.
func (c Certificates) listen(tb testing.TB) (addr string, args []string) {
	tb.Helper()
	addr = FreeAddr(tb)
	_, port, err := net.SplitHostPort(addr)
	need(tb, err)
	return addr, []string{
		"--tls-port", port, "--tls-cert-file", c.CAFile, "--tls-key-file", c.keyFile, "--tls-ca-cert-file", c.CAFile,
		"--tls-auth-clients", "no", "--tls-replication", "yes",
	}
}
