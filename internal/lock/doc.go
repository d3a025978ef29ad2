// Package lock provides distributed locks in Redis and in ZooKeeper. A lock has one holder at a time, across any number
// of processes, and a lease or a session that frees it if the holder dies.
//
//	locks, err := lock.NewRedLocks(nodes)
//	...
//	err = lock.TryDo(ctx, locks.Lock("order:42"), func(ctx context.Context) error {
//		return store.CreateOrder(ctx, order) // commits while the lock is held
//	})
//	if errors.Is(err, lock.ErrNotAcquired) {
//		// another holder has the lock
//	}
//
// The product itself uses only the red locks ([NewRedLocks], [NewRedLock]) or, if it is configured, a [ZooKeeper], with
// [TryDo], [RedLockKey] and their events: lane lock runs the purchases of one user one at a time. Everything else, [New]
// with the locks of a [Client] and [Multi], is a library offered beside the product; no part of the product depends on
// it. Its rooms are
//
//   - what all locks share: lock.go, hold.go, errors.go, await.go;
//   - the locks of the product: redlock*.go with exec.go, and zookeeper.go over package lock/zk;
//   - the family: client.go, claim.go, hub.go, request.go and script.go for all kinds, then a file for each kind.
//
// # Which lock
//
// [NewRedLock] and [NewRedLocks] return locks over one or more independent servers. They poll while they wait, and have
// no fencing token.
//
// A [ZooKeeper] creates mutexes on an ensemble of servers that agree on every change. A failover loses no lock there, and
// its tokens grow for ever; it refuses all locks while a majority of the servers is unreachable, and costs several times
// as much.
//
// A [Client] creates locks on one Redis, which may be a server, a cluster or a ring. Its waiters stand in a queue on
// the server and are woken by a message. Its exclusive locks give every holder a fencing token:
//
//   - [Mutex], unless there is a reason for another;
//   - [Fair], if waiters must be served strictly in order of arrival;
//   - [Reentrant], if code that holds the lock calls code that acquires it.
//
// The others admit several callers:
//
//   - [RWMutex], for many readers or one writer; a writer can downgrade to a reader, and an upgrade fails with
//     [ErrUpgrade];
//   - [LeasedSemaphore], for a limited number of concurrent users. The permits of a process that dies are returned when
//     their lease ends. Those of a [Semaphore] are not, so it suits permits that are released by another process than
//     the one that acquired them;
//   - [Latch], for waiting until a number of events have happened.
//
// [Multi] acquires several locks, of any kind and on any server, all or none.
//
// docs/hmdp.md explains the design step by step.
//
// # Locks and holds
//
// A [Locker] is a name on some Redis. It has no state and may be shared. Every successful Lock or TryLock returns a
// [Hold], which owns everything that can fail afterwards: its owner value in Redis, its lease, its renewals and its
// context. Consecutive holds of one name never affect each other. [Do] and [TryDo] wrap the whole cycle and are the
// usual way to use a lock.
//
// The ctx passed to Lock or TryLock bounds the wait only: when it ends, the call returns within some 50 ms, even if a
// command is in flight. It does not end a hold. A hold ends by Release or by loss. Both end [Hold.Context], with
// [ErrReleased] or [ErrLost] as the cause.
//
// # Leases
//
// Without [WithLease] a watchdog renews the lease (30 s by default) every third of it, until the hold is released or
// lost, or the process dies. A failed renewal is retried until it succeeds or the lease is about to end, so a single
// lost packet does no harm. A renewal that finds the key missing or owned by another holder ends the hold at once.
//
// With [WithLease] nothing is renewed: the hold ends with the lease.
//
// A lock in ZooKeeper has no lease on the server, which frees the locks of a session that it has not heard of for the
// session timeout. See [ZooKeeper.Mutex].
//
// In all cases the holder stops before the server frees the lock. [Hold.ValidUntil] is the start of the last
// successful acquire or renewal, plus the lease, minus 1 % for clocks that run at different speeds. [Hold.Context] ends
// earlier than that, by a twentieth of the lease but at most 1 s.
//
// # Waiting
//
// A waiter for a Client's lock is queued by the same script that tries to acquire it. It tries again when it is woken,
// when the holder's lease ends, and at least every 1.3 s, which also proves that it is alive: a waiter that has sent
// nothing for 4 s is skipped. All waiters of a Client share one pub/sub connection, which exists only while there are
// waiters. A contended cycle takes three commands and an uncontended one two; a release publishes nothing when there
// are no waiters. If a release leaves the lock free and the first waiter wants it exclusively and belongs to the same
// Client, the reply of the release hands the lock over to that waiter. No message is needed then, and a cycle takes two
// commands.
//
// When an owner acquires a [Reentrant] or [RWMutex], its other waiters, which may then acquire it too, are woken
// wherever they are in the queue.
//
// A wait that is cut short leaves the queue before it returns, or in the background if the server does not answer at
// once. While Redis is unreachable, waiters retry for 10 s. After that, or if the very first command fails, Lock
// returns Redis's error.
//
// The scripts of concurrent callers share round trips. A caller that queues behind other waiters of the same Client may
// be delayed by up to 2 ms, to travel with the commands sent meanwhile. The keys of a lock are named
// prefix:kind:{name}, so that a cluster keeps them together. They disappear with the lock, except the last fencing
// token, which is kept for an hour. On a ring, the wake messages of a lock reach only the waiters whose channel is on
// the same shard; the others acquire the lock when they retry.
//
// # What a Redis lock cannot promise
//
// A lock keeps most other callers out most of the time. It does not prove that its holder is alone:
//
//   - A process that is paused (garbage collection, a stopped container, a swapped-out host) sees its context end only
//     when it runs again. Its lease may have ended meanwhile, and a statement that it had already sent may arrive after
//     the next holder began.
//   - A Redis that fails over to a replica, or restarts without its data, loses the locks that were held. Redlock over
//     several independent nodes makes this rarer but does not prevent it, because a node that restarts empty votes
//     again at once.
//   - Leases are measured by several clocks. A clock that jumps forward on a node ends leases early. If it is set back, the
//     lock of a holder that has died stays taken for as long as the jump.
//
// Use a lock to save work and to answer fast, and let the data decide: a unique index, a conditional update whose
// affected rows are checked, or a fencing token ([Hold.Token]) that the store compares. In this project the database
// holds every invariant with all locks switched off, and the tests check exactly that.
//
// # Lost replies
//
// A command whose reply is lost may have been executed. This package sends each command once, regardless of the retries
// configured in the client, and then handles the unknown outcome: a failed acquire is undone by the value that is
// unique to the attempt, so the undo can never free another holder's lock; a waiter repeats its attempt with the same
// id and gets the same answer; a failed release is repeated; and an outcome that stays unknown is reported as
// [ErrUncertain]. If an undo never arrives, or overtakes its acquire on the network, the lock stays taken without a
// holder for the rest of one lease. A process undoes at most 1,024 attempts at once. One more is reported as
// [ErrUncertain] even if it has only waited: until it counts as dead, a release may hand the lock over to it.
//
// # What Redis must allow
//
//   - Memory: with maxmemory-policy noeviction, a Redis at its limit refuses commands that may grow, with the error OOM: new
//     locks, the number of permits, the count of a latch. Holds are renewed and everything can be released. Any other policy
//     evicts locks.
//   - Permissions: ACL SETUSER locker on >password resetkeys ~lock:* resetchannels &lock:* -@all +@read +@write +@scripting
//     +@pubsub +@connection +time, and in a cluster +cluster|slots. With WithPrefix("shop") the patterns are ~shop:* and
//     &shop:*, for a RedLock ~redlock:* without a channel. Without channels no waiter is woken: it acquires when it retries,
//     up to 1.3 s late, or when the holder's lease ends.
//   - Scripts that name their keys by variables, which some services refuse. Those of a RedLock do not.
//   - Whole slots: while a cluster moves a slot, nothing in it can be acquired, with the error TRYAGAIN. Renewals are repeated
//     until the lease ends.
//   - A script that breaks off leaves what it changed before. A release of permits or a count then reports [ErrUncertain] and is
//     not repeated.
//
// # Clients
//
// Every Redis client works. For short waits when a node is dead or hangs, give the locks clients of their own, with
//
//	redis.Options{ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1}
//
// Without the first option, a *redis.Client is bounded through its WithTimeout, but a cluster client or a ring keeps its own
// read timeout: with ReadTimeout -1, its commands and the Close of a [Client] last as long as the server hangs. The default
// DialerRetries of 5 makes a refused connection take half a second instead of none. MaxRetries does not affect the commands
// of this package, but scripts that other code sends through the same client are executed twice when a reply is lost.
package lock
