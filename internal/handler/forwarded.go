package handler

import (
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

const (
	forwardedForHeader = "X-Forwarded-For"
	forwardedHeader    = "Forwarded" // RFC 7239
)

// readForwarded makes gin read the addresses in X-Forwarded-For, or else in Forwarded, as proxies write them: Azure and IIS
// append ports, IPv6 addresses have brackets, and Forwarded has quotes. gin knows one header with bare addresses, and takes
// the address of the proxy if one of them is not. Only headers of the trusted proxies are read. One that names no address
// is logged once, because all its clients then share the limits of one address.
func readForwarded(next http.Handler, trusted []netip.Prefix, log *slog.Logger) http.Handler {
	if len(trusted) == 0 {
		return next
	}
	var unreadable sync.Once
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isFrom(r, trusted) {
			next.ServeHTTP(w, r)
			return
		}

		hops := hopsOf(r.Header)
		addrs := make([]string, len(hops))
		for i, hop := range hops {
			addr, ok := parseHop(hop)
			if !ok {
				unreadable.Do(func() {
					log.Warn("a trusted proxy names no address of the client: its clients share the limits of one address", "header", hop, "proxy", r.RemoteAddr)
				})
				next.ServeHTTP(w, r)
				return
			}
			addrs[i] = addr.String()
		}

		if len(addrs) > 0 {
			r.Header.Set(forwardedForHeader, strings.Join(addrs, ", "))
		}
		next.ServeHTTP(w, r)
	})
}

// isFrom reports whether the peer of a request is one of the networks.
func isFrom(r *http.Request, networks []netip.Prefix) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr := peer.Addr().Unmap()
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// hopsOf returns the addresses through which a request came, the last one last, as the proxies wrote them.
func hopsOf(header http.Header) []string {
	lines := header.Values(forwardedForHeader)
	if len(lines) > 0 {
		return strings.Split(strings.Join(lines, ","), ",")
	}

	var hops []string
	for element := range strings.SplitSeq(strings.Join(header.Values(forwardedHeader), ","), ",") {
		for pair := range strings.SplitSeq(element, ";") {
			name, value, _ := strings.Cut(pair, "=")
			if strings.EqualFold(strings.TrimSpace(name), "for") {
				hops = append(hops, value)
			}
		}
	}
	return hops
}

// parseHop reads an address, with or without quotes, brackets, port and zone.
func parseHop(text string) (netip.Addr, bool) {
	text = strings.Trim(strings.TrimSpace(text), `"`)
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr().Unmap().WithZone(""), true
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		text = strings.TrimSuffix(inner, "]")
	}
	addr, err := netip.ParseAddr(text)
	return addr.Unmap().WithZone(""), err == nil
}
