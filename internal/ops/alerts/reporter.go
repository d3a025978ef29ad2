package alerts

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/domain"
	"seckill/internal/kit/loop"
)

const (
	// reportInterval is the interval between reads of the alerts.
	reportInterval = 5 * time.Second
	// After a failed post the next one comes after firstRetry, and then after pauses that double up to lastRetry.
	firstRetry = 5 * time.Second
	lastRetry  = 15 * time.Minute

	// reporterKey has the server that reports, for lease after its last sign of life, which outlasts a post.
	reporterKey = "seckill:alerts:reporter"
	lease       = time.Minute
	// reportedKey is a hash: the alerts whose beginning was posted and whose end was not, by key.
	reportedKey = "seckill:alerts:reported"
)

// The types of messages.
const (
	raised   = "alert.raised"
	resolved = "alert.resolved"
)

// message is the body of a post.
type message struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	CreatedAt time.Time `json:"created_at"`
	Data      Alert     `json:"data"`
}

// Reporter posts the beginning and the end of each alert to the receiver of SECKILL_ALERT_URL: at least once, from one of the
// servers, which all run one. What was posted is in Redis; after a loss of its data, the present alerts are posted again.
type Reporter struct {
	Read func(context.Context) (Alerts, error)
	// Fails unless the receiver has accepted the body.
	Post func(ctx context.Context, body []byte) error
	// Watch has sales checked from now on, although they may be over: what was posted may have been found by another server.
	Watch func(voucherIDs []int64)
	Redis redis.Cmdable
	// The unique name of this process.
	Instance string
	Now      func() time.Time

	// By type and key. A message keeps its id until it is accepted.
	pending map[string]message
	// The last failures in a row, their last error, and the time before which nothing is posted.
	failures int
	failed   error
	retryAt  time.Time
}

// Task reports. It must run once only.
func (r *Reporter) Task() loop.Task {
	return loop.Every(reportInterval, "report alerts to SECKILL_ALERT_URL", r.report)
}

func (r *Reporter) report(ctx context.Context) error {
	if r.Now().Before(r.retryAt) {
		return r.failed
	}

	if leads, err := r.leads(ctx); err != nil || !leads {
		return err
	}

	present, err := r.Read(ctx)
	if err != nil {
		return err
	}

	reported, err := r.reported(ctx)
	if err != nil {
		return err
	}

	var violated []int64
	for _, a := range reported {
		if a.Kind == KindViolation {
			violated = append(violated, a.VoucherID)
		}
	}
	r.Watch(violated)

	changes := r.changes(present, reported)
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		if err := r.send(ctx, changes[key]); err != nil {
			r.failed = err
			r.retryAt = r.Now().Add(loop.Backoff(firstRetry, lastRetry, r.failures))
			r.failures++
			return err
		}
		delete(r.pending, key)
	}

	r.failures = 0
	return nil
}

func (r *Reporter) leads(ctx context.Context) (bool, error) {
	won, err := r.Redis.SetNX(ctx, reporterKey, r.Instance, lease).Result()
	if err != nil || won {
		return won, err
	}

	leader, err := r.Redis.Get(ctx, reporterKey).Result()
	switch {
	case errors.Is(err, redis.Nil) || err == nil && leader != r.Instance:
		return false, nil
	case err != nil:
		return false, err
	}

	return true, r.Redis.PExpire(ctx, reporterKey, lease).Err()
}

func (r *Reporter) reported(ctx context.Context) (map[string]Alert, error) {
	stored, err := r.Redis.HGetAll(ctx, reportedKey).Result()
	if err != nil {
		return nil, err
	}

	all := make(map[string]Alert, len(stored))
	for key, text := range stored {
		var a Alert
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			return nil, err
		}
		all[key] = a
	}

	return all, nil
}

// changes returns the messages to post, by type and key, and forgets those whose alert has changed back before it was posted.
func (r *Reporter) changes(present Alerts, reported map[string]Alert) map[string]message {
	changes := map[string]message{}
	add := func(kind string, a Alert) {
		key := kind + " " + a.key()
		m, again := r.pending[key]
		if !again {
			m = message{
				ID:        rand.Text(),
				Type:      kind,
				CreatedAt: domain.Moment(r.Now()),
			}
		}

		m.Data = a
		changes[key] = m
	}

	ended := maps.Clone(reported)
	for _, a := range present.each() {
		delete(ended, a.key())
		if _, known := reported[a.key()]; !known {
			add(raised, a)
		}
	}

	for _, a := range ended {
		if present.knows(a) {
			add(resolved, a)
		}
	}

	r.pending = maps.Clone(changes)
	return changes
}

func (r *Reporter) send(ctx context.Context, m message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := r.Post(ctx, body); err != nil {
		return err
	}

	if m.Type == resolved {
		return r.Redis.HDel(ctx, reportedKey, m.Data.key()).Err()
	}

	alert, err := json.Marshal(m.Data)
	if err != nil {
		return err
	}

	return r.Redis.HSet(ctx, reportedKey, m.Data.key(), alert).Err()
}
