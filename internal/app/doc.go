// Package app assembles the server: its configuration, its connections to the database, Redis and the lock nodes, the
// wiring of all packages, the metrics registry, the pub/sub messages between servers, and the demo. Package cli uses the same
// connections for the other commands.
package app
