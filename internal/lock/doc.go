// Package lock holds locks in Redis: one holder at a time, over any number of
// processes, with a lease that ends by itself when the holder dies.
//
//	l, err := lock.NewRedLock("order:42", nodes)
//	...
//	err = lock.TryDo(ctx, l, func(ctx context.Context) error {
//		return store.CreateOrder(ctx, order) // commits inside the lock
//	})
//	if errors.Is(err, lock.ErrNotAcquired) {
//		// somebody else is at it
//	}
//
// # Which lock
//
// [NewRedLock] makes a lock over one or more independent servers. It asks them
// again and again until it gets in, and has no fencing token.
//
// A [Client] makes locks on one Redis, be it a server, a cluster or a ring. Who
// waits for them stands in a queue on the server and is woken by message. Those
// that let one holder in at a time give it a fencing token; of them take
//
//   - [Mutex], unless there is a reason for another;
//   - [Fair], where those who came first must be served first;
//   - [Reentrant], where code that holds the lock calls code that takes it.
//
// Of those that let in several:
//
//   - [RWMutex], for many readers or one writer; a writer may go on as a reader,
//     and the other way round is [ErrUpgrade];
//   - [LeasedSemaphore], for so many at a time. The permits of a process that
//     dies come back; those of a [Semaphore] do not, so it is for permits that
//     are given back by somebody else than who took them;
//   - [Latch], for waiting until so many things have happened.
//
// [Multi] takes several locks, of any kind and on any server, all or none.
//
// docs/locks.md tells step by step why they are as they are.
//
// # Locks and holds
//
// A [Locker] is a name on some Redis; it has no state and may be shared. Every
// successful Lock or TryLock makes a [Hold], and everything that can go wrong
// afterwards belongs to that hold: its owner value in Redis, its lease, its
// renewals and its context. Two holds of one name, one after the other, never
// touch each other. [Do] and [TryDo] wrap the whole cycle and are the usual way
// to use a lock.
//
// The ctx that is passed to Lock or TryLock is the wait, nothing else: when it
// ends, the wait ends, within some 50 ms, even if a command is in flight. It
// does not end a hold. A hold ends by Release or by loss, and both end
// [Hold.Context], with [ErrReleased] or [ErrLost] as the cause.
//
// # Leases
//
// Without [WithLease] a watchdog renews the lease (30 s unless configured) each
// third of it, until the hold is released, lost, or the process dies. A renewal
// that fails is repeated until it works or the lease is about to end; one lost
// packet costs nothing. A renewal that proves that the key is somebody else's,
// or gone, ends the hold at once.
//
// With [WithLease] nothing is renewed: the hold ends with the lease.
//
// Either way the holder stops before the server lets go: [Hold.ValidUntil] is
// the start of the last successful acquire or renewal, plus the lease, minus
// 1 % for clocks that run at different speeds. [Hold.Context] ends before that,
// by a further twentieth of the lease, at most 1 s.
//
// # Waiting
//
// Who waits for a Client's lock asks, is queued by the same script, and asks
// again when it is woken, when the holder's lease ends, and in any case after
// 1.3 s, which also shows that it is alive: a waiter that has not been heard of
// for 4 s is passed over. All waiters of a Client share one pub/sub connection,
// which exists only while there are any. A contended cycle is three commands,
// an uncontended one two, and a release publishes nothing when nobody waits.
// A lock that becomes free while the first in the queue wants all of it, and is
// of the Client that released it, is left to it by the answer to the release:
// then no message is needed, and a cycle is two commands.
//
// When the owner of a [Reentrant] or [RWMutex] gets in, other waiters of that
// owner, who may follow, are woken wherever they are in the queue.
//
// A wait that is cut short leaves the queue before it returns, or in the
// background if the server does not answer at once. While Redis is unreachable,
// waiters go on asking for 10 s; then, or if the very first question fails, Lock
// returns Redis's error.
//
// The scripts of concurrent callers share round trips. Who comes to wait behind
// others of the same Client is in no hurry, and asks up to 2 ms later, together
// with whatever is sent meanwhile. The keys of a lock are
// named prefix:kind:{name}, so that a cluster keeps them together, and vanish
// with the lock; only the last token stays, for an hour. On a ring, the wakes of
// a lock reach only the waiters whose channel is on the same shard; the others
// find out by asking.
//
// # What a Redis lock cannot promise
//
// It keeps most of the others out most of the time. It does not prove that
// nobody else is at work:
//
//   - A process that is paused (garbage collection, a stopped container, a
//     swapped-out host) sees its context end only when it runs again. Its lease
//     may have ended meanwhile, and a statement that it had already sent may
//     arrive after the next holder began.
//   - A Redis that fails over to a replica, or restarts without its data,
//     forgets locks that were held. Redlock over several independent nodes
//     makes this rarer; it does not end it, because a node that restarts empty
//     votes again at once.
//   - Leases are measured by several clocks. A clock that jumps on a node ends
//     leases early.
//
// So let the lock save work and give fast answers, and let the data decide: a
// unique index, a conditional update whose affected rows are checked, or a
// fencing token ([Hold.Token]) that the store compares. In this project the
// database holds every invariant with all locks switched off, and the tests
// check it in exactly that way.
//
// # Lost replies
//
// A command whose reply is lost may have been executed. This package sends
// each command once, whatever retries the client is configured with, and then
// acts on what it does not know: a failed acquire is undone (by the value that
// only this attempt knows, so it can never free somebody else's lock), a waiter
// asks again as the same, and is answered as it was the first time, a
// failed release is repeated, and what stays unknown is reported as
// [ErrUncertain]. The price of an undo that never arrives, or that overtakes its
// acquire on the network, is a lock that nobody holds and nobody gets, for the
// rest of one lease.
//
// # Clients
//
// Every Redis client works. For short waits when a node is dead or hangs, give
// the lock clients of their own, with
//
//	redis.Options{ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1}
//
// Without the first, a *redis.Client is bounded through its WithTimeout, but a
// cluster client keeps its own read timeout. The default DialerRetries of 5
// makes a refused connection take half a second instead of none. MaxRetries
// does not matter to the commands of this package, but scripts that other code
// sends through the same client are executed twice when a reply is lost.
package lock
