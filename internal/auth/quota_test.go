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
	return env.Must(c.service.identify(c.t.Context(), from, phone))(c.t)
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

func numbers(t *testing.T, countries ...string) *Phones {
	t.Helper()
	return env.Must(NewPhones(countries))(t)
}

// Every way to write a number leads to one account.
func TestParseReturnsOneFormPerNumber(t *testing.T) {
	for want, tc := range map[string]struct {
		countries []string
		country   string
		written   []string
	}{
		"13800000001": {[]string{"CN"}, "CN", []string{
			"13800000001", "+8613800000001", "008613800000001", "0086 138 0000 0001", "+86 138-0000-0001", "8613800000001",
			"１３８０００００００１", "＋86 13800000001", " 138 0000 0001 ", "(+86) 138.0000.0001", "０13800000001",
			// Address books and messengers add marks and links (woocommerce/woocommerce#58000, glific/glific#4815).
			"\u202d138 0000 0001\u202c", "\u200e+86 138 0000 0001", "+86\u202f138\u202f0000\u202f0001", "\ufeff138\u00ad0000\u20600001",
			"\u2068+86 138\u20090000\u20090001\u2069", "138−0000−0001", "tel:+86-138-0000-0001", "TEL:13800000001", "13800000001\n", "١٣٨٠٠٠٠٠٠٠١",
			"+86\u2011138\u20110000\u20110001", "（＋86）138\u061c00000001", "138·0000·0001", "tel://13800000001", "138/0000/0001",
			"'13800000001", "“138 0000 0001”。", "【13800000001】", "<tel:13800000001>", "📞 +86 138 0000 0001", "☎\ufe0f（+86）13800000001;", "138～0000～0001",
			"tel:+86%20138%200000%200001", "tel:%2B86-138-0000-0001", "TEL:%E2%80%AA13800000001", // as a browser copies a link
		}},
		"19412345678": {[]string{"CN"}, "CN", []string{"+86 194 1234 5678", "19412345678"}}, // a prefix that the library does not know
		"+491711234567": {[]string{"CN", "de"}, "DE", []string{
			"0171 1234567", "0171/1234567", "+49 171 1234567", "+49 (0)171 1234567", "0049 171 1234567", "0171-123 45 67",
		}},
		"+447400123456": {[]string{"GB"}, "GB", []string{"07400 123456", "+447400123456", "+4407400123456", "00447400123456"}},
		"+447911123456": {[]string{"GG"}, "GG", []string{"+447911123456", "+4407911123456"}},
		"+819012345678": {[]string{"JP"}, "JP", []string{"090-1234-5678", "+81 (0)90 1234 5678", "０９０ー１２３４ー５６７８", "+81 90・1234・5678"}},
		"+33612345678":  {[]string{"FR"}, "FR", []string{"06.12.34.56.78", "06 12 34 56 78", "+33\u202f6\u202f12\u202f34\u202f56\u202f78"}},
		// The former prefix of mobile numbers: https://en.wikipedia.org/wiki/Telephone_numbers_in_Mexico
		"+525512345678": {[]string{"MX"}, "MX", []string{"+52 55 1234 5678", "+52 1 55 1234 5678", "0052 1 55 1234 5678", "55 1234 5678"}},
		"+12015550123":  {[]string{"US", "CA"}, "US", []string{"(201) 555-0123", "1-201-555-0123", "+1 201 555 0123"}},
	} {
		for _, in := range tc.written {
			got, country, err := numbers(t, tc.countries...).Parse(in)
			require.NoError(t, err, in)
			require.Equal(t, want, got, in)
			require.Equal(t, tc.country, country, in)
		}
	}
}

func TestParseRefusesOtherNumbers(t *testing.T) {
	for name, in := range map[string]string{
		"empty": "", "short": "1", "landline": "021-62345678", "landline abroad": "+49 30 123456",
		"unassigned": "12800000001", "load-test user": "10000000001", "too long": "138000000011", "letter": "1380000000a",
		"text": "call 13800000001", "NUL": "13800000001\x00", "extension": "13800000001;ext=5",
		"URI": "tel:+8613800000001;phone-context=+86", "another URI": "sms:+8613800000001", "vanity": "+1-800-FLOWERS", "two pluses": "+86+8613800000001",
		"other country": "+4915112345678", "other country, national": "0171 1234567", "US": "+1 201 555 0123",
		"satellite": "+88216123456789", "premium": "+97912345678", "premium US": "+19005551234", "spaces": "   ",
		"long": "1380000000" + string(make([]byte, 1000)),
	} {
		_, _, err := numbers(t, "CN").Parse(in)
		var invalid *domain.InvalidError
		require.ErrorAs(t, err, &invalid, name)
		require.Equal(t, []domain.FieldError{{
			Field: "phone", Detail: "must be a mobile number of CN, such as 131 2345 6789 or +86 131 2345 6789",
		}}, invalid.Fields, name)
	}
	for _, in := range []string{"+88216123456789", "+97912345678", "+19005551234", "+18005551234", "+122222222222222", "+16715551234"} {
		_, _, err := numbers(t, "US", "CN", "DE").Parse(in)
		require.Error(t, err, in)
	}
}

// Accounts of a country that is no longer accepted can still be found.
func TestCanonicalOfAnyNumber(t *testing.T) {
	for in, want := range map[string]string{
		"+49 (0)151 12345678": "+4915112345678", "0086 138 0000 0001": "13800000001", "14912345678": "14912345678",
	} {
		got := env.Must(numbers(t, "CN").Canonical(in))(t)
		require.Equal(t, want, got)
	}
	for _, in := range []string{"x", "", "12", "+1234567890123456789"} {
		_, err := numbers(t, "CN").Canonical(in)
		require.ErrorContains(t, err, "such as 131 2345 6789", in)
	}
}

func TestNewRefusesUnknownCountries(t *testing.T) {
	for _, bad := range [][]string{{"XX"}, {"CN", "China"}, {"86"}, {"001"}, {""}, {}} {
		_, err := NewPhones(bad)
		require.Error(t, err, bad)
	}
}
