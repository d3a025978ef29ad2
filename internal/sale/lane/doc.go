// Package lane contains the order modes, the ways from a purchase to a committed order. Batch is group commit, Lock is
// Batch under a lock of the user, and Queue reserves in Redis first and commits later, by a Committer. Like package
// service it contains no SQL and no Redis code: it declares the small interfaces that it needs.
package lane
