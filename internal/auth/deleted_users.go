package auth

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"seckill/internal/loop"
)

// A process looks for deleted users twice a second, among up to checkBatch users. It finds a deleted one within 2 s while
// up to 1,000 users have a valid token in this process, and within a minute with 100,000.
const (
	checkEvery = 500 * time.Millisecond
	checkBatch = 1000
)

// Run ends the sessions of users who were deleted from the database, until ctx ends. A deletion through the program ends
// them at once; this covers rows that are removed by hand, at no cost for the requests. It is run once per Service.
func (a *Service) Run(ctx context.Context, log *slog.Logger) {
	var due []int64 // users to check
	loop.Task{Name: "look for deleted users", Every: checkEvery, Log: log, Run: func(ctx context.Context) error {
		if len(due) == 0 {
			due = slices.Collect(maps.Keys(a.activeUsers()))
		}
		batch := due[:min(len(due), checkBatch)]
		due = due[len(batch):]
		return a.checkUsers(ctx, batch)
	}}.Loop(ctx)
}

// checkUsers revokes the sessions of deleted users. A token that a load test signed for a user without a row has no
// session, so it stays valid. It looks twice, because a node of a database cluster may lack a user that has just been
// inserted through another one.
func (a *Service) checkUsers(ctx context.Context, ids []int64) error {
	deleted, err := a.deletedUsers(ctx, ids)
	if err != nil || len(deleted) == 0 {
		return err
	}
	if err := loop.Sleep(ctx, checkEvery); err != nil {
		return err
	}
	if deleted, err = a.deletedUsers(ctx, deleted); err != nil {
		return err
	}
	active := a.activeUsers()
	for _, user := range deleted {
		if err := a.endSessions(ctx, user, active[user]...); err != nil {
			return err
		}
	}
	return nil
}

func (a *Service) deletedUsers(ctx context.Context, ids []int64) ([]int64, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	return a.cfg.Store.DeletedUsers(ctx, ids)
}

// activeUsers returns the sessions that this process accepts without asking the database, by user. It removes expired
// tokens from the cache.
func (a *Service) activeUsers() map[int64][]string {
	now, users := a.cfg.Now(), map[int64][]string{}
	add := func(id Identity) {
		if !a.cfg.Revoked.Has(id.SessionID) {
			users[id.UserID] = append(users[id.UserID], id.SessionID)
		}
	}
	for token, v := range a.cfg.Tokens.verified.All() {
		if now.Before(v.expires) {
			add(v.identity)
		} else {
			a.cfg.Tokens.verified.Delete(token)
		}
	}
	for _, s := range a.idleSessions.All() {
		if s.idle(now) < SlidingTTL {
			add(s.identity)
		}
	}
	return users
}
