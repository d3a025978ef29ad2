//go:build !linux

package drain

import "net"

// refuseConnections does nothing: connections that arrive while the listener is closed are reset.
func refuseConnections(net.Listener) {}

func hasUnaccepted(net.Listener) bool { return false }
