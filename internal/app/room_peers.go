package app

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// roomPeers implements entry.Peers with one hash per room: a field per server.
type roomPeers struct {
	rdb      redis.UniversalClient
	instance string
}

// Exchange implements entry.Peers.
func (p roomPeers) Exchange(ctx context.Context, voucherID int64, report []byte, life time.Duration) ([][]byte, error) {
	key := "seckill:room:" + strconv.FormatInt(voucherID, 10)
	ctx, cancel := context.WithTimeout(ctx, roomPeersTimeout)
	defer cancel()

	var all *redis.MapStringStringCmd
	_, err := p.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.HSet(ctx, key, p.instance, report)
		pipe.Expire(ctx, key, life)
		all = pipe.HGetAll(ctx, key)
		return nil
	})
	if err != nil {
		return nil, err
	}

	reports := make([][]byte, 0, len(all.Val()))
	for _, report := range all.Val() {
		reports = append(reports, []byte(report))
	}

	return reports, nil
}

// roomPeersTimeout bounds an exchange, so that a Redis that hangs does not stop the rooms.
const roomPeersTimeout = 300 * time.Millisecond
