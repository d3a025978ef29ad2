package auth

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/domain"
	"seckill/internal/kit/ratelimit"
	"seckill/test/env"
)

// codes counts the codes that a quota allows within a day.
type codes struct {
	t       *testing.T
	now     time.Time
	service *Service
	quota   *ratelimit.Quota
	phones  int
}

func newCodes(t *testing.T) *codes {
	c := &codes{t: t, now: testNow}
	clock := func() time.Time { return c.now }
	tokens := env.Must(NewTokens(testSecret, clock))(t)
	c.service, c.quota = New(Config{Store: &userStore{}, Tokens: tokens, Now: clock}), ratelimit.NewQuota("codes", clock, nil)
	return c
}

// userStore has a user for every phone, and counts the reads.
type userStore struct {
	Store

	reads int
}

func (s *userStore) UserByPhone(_ context.Context, phone string) (domain.User, error) {
	s.reads++
	return domain.User{Phone: phone}, nil
}

func (c *codes) identify(from Asker, phone string) asker {
	a := env.Must(c.service.identify(c.t.Context(), from, phone))(c.t)
	return a
}

func (c *codes) send(country, address string, known bool) bool {
	c.phones++
	phone := fmt.Sprint(c.phones)
	from := Asker{Address: netip.MustParseAddr(address)}
	if known {
		from.Proof = c.service.proof("", domain.User{Phone: phone})
	}
	return c.quota.Take(c.t.Context(), codeBuckets(phone, country, c.identify(from, phone))...) == 0
}

func (c *codes) inOneDay(country string, address func(i int) string) (atOnce, inAll int) {
	for hour := range 24 {
		for refused := 0; refused < 3; {
			if c.send(country, address(inAll+refused), false) {
				inAll++
			} else {
				refused++
			}
		}
		if hour == 0 {
			atOnce = inAll
		}
		c.now = c.now.Add(time.Hour)
	}
	return atOnce, inAll
}

func TestCodesOfNetworksAreBounded(t *testing.T) {
	env.NoRace(t, "it computes")
	for name, address := range map[string]func(i int) string{
		"IPv4 /24": func(i int) string { return fmt.Sprintf("198.51.100.%d", i%256) },
		"IPv6 /48": func(i int) string { return fmt.Sprintf("2001:db8:0:%x::%x", i%0x10000, i) },
		"mapped":   func(i int) string { return fmt.Sprintf("::ffff:198.51.100.%d", i%256) },
	} {
		atOnce, inAll := newCodes(t).inOneDay("CN", address)
		require.Equal(t, 4000, atOnce, name)
		require.LessOrEqual(t, inAll, 6000, name)
	}
}

// More addresses of a network bring no more codes for a phone: three networks cannot use up what strangers get, and a
// fourth, that of the owner, gets its first codes.
func TestNetworkOfStrangersIsOneAsker(t *testing.T) {
	c := newCodes(t)
	sent := func(address string) bool {
		c.now = c.now.Add(time.Minute) // the interval between two codes
		a := c.identify(Asker{Address: netip.MustParseAddr(address)}, "138")
		return c.quota.Take(t.Context(), codeBuckets("138", "CN", a)...) == 0
	}
	got := 0
	for i := range 500 {
		if sent(fmt.Sprintf("198.51.100.%d", i%256)) {
			got++
		}
	}
	require.LessOrEqual(t, got, 6+4, "%d in 500 minutes", got)
	require.True(t, sent("203.0.113.7"), "another network")
}

// take takes n tokens of a rule's bucket for a stranger's code.
func (c *codes) take(n int, rule ratelimit.Rule, country string) {
	for _, b := range codeBuckets("", country, asker{}) {
		for range n {
			if b.Rule == rule {
				require.Zero(c.t, c.quota.Take(c.t.Context(), b))
			}
		}
	}
}

// Addresses all over the world cannot send more than the budget of a country, nor of all countries together. Devices
// that have logged in before still get codes.
func TestCodesOfCountriesAreBounded(t *testing.T) {
	env.NoRace(t, "it computes")
	c := newCodes(t)
	c.take(49_999, codeCountries, "CN")
	require.True(t, c.send("CN", "203.0.113.7", false))
	require.False(t, c.send("CN", "203.0.113.7", false))
	require.True(t, c.send("CN", "203.0.113.7", true), "a known device")
	require.True(t, c.send("DE", "203.0.113.7", false), "another country")
	c.take(100_000-2, codesInAll, "")
	require.False(t, c.send("DE", "203.0.113.7", false))
	require.True(t, c.send("DE", "203.0.113.7", true), "a known device")
}

func TestDeviceIsKnownForItsPhone(t *testing.T) {
	c := newCodes(t)
	user := domain.User{Phone: "138"}
	proof := c.service.proof("", user)
	identify := func(proof, phone string) asker {
		return c.identify(Asker{Address: netip.MustParseAddr("198.51.100.9"), Proof: proof}, phone)
	}
	require.True(t, identify(proof, "138").known)
	require.Equal(t, proof, c.service.proof(proof, user), "a device keeps its identity")
	for _, other := range []string{"", ".", "x", proof + "x", "x" + proof, proof[:len(proof)-1]} {
		require.Equal(t, asker{key: "198.51.100.9/32", network: "198.51.100.0/24"}, identify(other, "138"), other)
	}
	require.False(t, identify(proof, "139").known)
	for _, changed := range []domain.User{{Phone: "138", ID: 1}, {Phone: "138", DeviceGeneration: 1}} {
		require.False(t, c.service.cfg.Tokens.provesDevice(proof, changed))
	}
	require.NotEqual(t, proof, c.service.proof(proof, domain.User{Phone: "139"}))
	require.Equal(t, asker{key: "unknown", network: "unknown"}, c.identify(Asker{}, "138"))
	require.Equal(t, asker{key: "2001:db8:1:100::/56", network: "2001:db8:1::/48"},
		c.identify(Asker{Address: netip.MustParseAddr("2001:db8:1:1ff::7%eth0")}, "138"))
}

// Made-up proofs cost no query. A device with a proof, which anyone with a phone can have, costs one a second.
func TestProofsCostFewReads(t *testing.T) {
	c := newCodes(t)
	c.service.cfg.Quota = c.quota
	store := &userStore{}
	c.service.cfg.Store = store
	proof := c.service.proof("", domain.User{Phone: "138"})
	for _, made := range []string{"x", "a.1.1.x", proof + "x", "x" + proof} {
		require.False(t, c.identify(Asker{Proof: made}, "138").known)
	}
	require.False(t, c.identify(Asker{Proof: proof}, "139").known)
	require.Zero(t, store.reads)
	for range 100 {
		_, err := c.service.identify(t.Context(), Asker{Proof: proof}, "138")
		if store.reads == proofReads.Burst && err != nil {
			require.ErrorAs(t, err, new(*domain.RateLimitedError))
		} else {
			require.NoError(t, err)
		}
	}
	require.Equal(t, proofReads.Burst, store.reads)
	require.False(t, c.identify(Asker{}, "138").known, "a stranger")
}
