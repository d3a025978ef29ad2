package auth

import (
	"context"
	"time"

	"seckill/internal/domain"
	"seckill/internal/kit/ratelimit"
)

// The limits of logins and their codes, over all servers. docs/operations.md has the same table. A thousand people behind
// one address can log in before a sale; one address, one network and one country cost a bounded sum a day.
var (
	// Per asker, so that a stranger at the owner's address cannot keep a known device from logging in.
	logins = ratelimit.NewRule("logins", 120, time.Second/5)
	// Per known device: how often it costs a read of its user before another limit holds.
	proofReads = ratelimit.NewRule("proofs", 30, time.Second)
	// Per phone and known device, or per phone and network of strangers: more addresses of one network bring no more codes.
	codeResends = ratelimit.NewRule("resends", 3, time.Minute)
	codeAskers  = ratelimit.PerDay("askers", 6, 10)
	// Per phone: once for all strangers, and once for all devices that have logged in to it.
	codePhones = ratelimit.PerDay("phones", 12, 20)
	// Strangers only: per IPv4 address or IPv6 /56, and per network of 256 of them.
	codeAddresses = ratelimit.PerDay("addresses", 1_500, 2_000)
	codeNetworks  = ratelimit.PerDay("networks", 4_000, 6_000)
	// Per country of the phone, and in all; once for strangers and once for known devices.
	codeCountries = ratelimit.PerDay("countries", 50_000, 100_000)
	codesInAll    = ratelimit.PerDay("all", 100_000, 200_000)
	// Per asker: codes that were not sent. The provider may charge for a refusal, or stop serving all after many.
	codeRefusals = ratelimit.NewRule("refusals", 1_500, time.Second/5)
	// Per phone. The next login creates an account that may buy again as much as every sale allows a user.
	erasures = ratelimit.PerDay("erasures", 1, 2)
)

// codeBuckets returns the buckets of a code. Strangers and known devices share none, so that strangers, however many,
// cannot keep the owner of a phone from a code.
func codeBuckets(phone, country string, a asker) []ratelimit.Bucket {
	kind := "stranger "
	from := a.network
	if a.known {
		kind = "known "
		from = a.key
	}

	buckets := []ratelimit.Bucket{
		{Rule: codeResends, Key: phone + " " + from},
		{Rule: codeAskers, Key: phone + " " + from},
		{Rule: codePhones, Key: kind + phone},
		{Rule: codeCountries, Key: kind + country},
		{Rule: codesInAll, Key: kind},
	}

	if !a.known {
		buckets = append(buckets,
			ratelimit.Bucket{Rule: codeAddresses, Key: a.key},
			ratelimit.Bucket{Rule: codeNetworks, Key: a.network})
	}

	return buckets
}

// limit takes a call from each bucket. Error: *domain.RateLimitedError; nothing is taken.
func (a *Service) limit(ctx context.Context, buckets ...ratelimit.Bucket) error {
	if a.cfg.Quota == nil {
		return nil
	}
	if wait := a.cfg.Quota.Take(ctx, buckets...); wait > 0 {
		return &domain.RateLimitedError{RetryAfter: wait}
	}
	return nil
}

func (a *Service) giveBack(ctx context.Context, buckets ...ratelimit.Bucket) {
	if a.cfg.Quota != nil {
		a.cfg.Quota.Return(ctx, buckets...)
	}
}
