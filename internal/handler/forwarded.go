package handler

import (
	"log/slog"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const (
	forwardedForHeader = "X-Forwarded-For"
	forwardedHeader    = "Forwarded" // RFC 7239
)

// forwardedPair matches a pair of a Forwarded header. Its value may be in quotes, with separators inside. forwardedLine
// matches a whole header.
const forwardedPair = `\s*([^=;,"\s]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;,"]*)\s*`

var (
	forwardedPairs = regexp.MustCompile(forwardedPair)
	forwardedLine  = regexp.MustCompile(`^(?:(?:` + forwardedPair + `|\s*)(?:[;,]|$))*$`)
)

// readForwarded makes gin read the addresses in X-Forwarded-For, or else in Forwarded, as proxies write them: Azure and IIS
// append ports, IPv6 addresses have brackets, and Forwarded has quotes. gin knows one header with bare addresses, and takes
// the address of the proxy if one of them is not. Only headers of the trusted proxies are read. One that does not name the
// client is logged once, because all its clients then share the limits of one address.
func readForwarded(next http.Handler, trusted []netip.Prefix, log *slog.Logger) http.Handler {
	if len(trusted) == 0 {
		return next
	}

	var unreadable sync.Once

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !contains(trusted, peer.Addr().Unmap()) {
			next.ServeHTTP(w, r)
			return
		}

		// The last address that is not of a trusted proxy is the client. What stands before it is the client's own word.
		var client netip.Addr
		for _, hop := range slices.Backward(hopsOf(r.Header)) {
			addr, ok := parseHop(hop)
			if !ok {
				unreadable.Do(func() {
					log.Warn("a trusted proxy names no address of the client: its clients share the limits of one address", "header", hop, "proxy", r.RemoteAddr)
				})
				break
			}
			client = addr
			if !contains(trusted, addr) {
				break
			}
		}

		if client.IsValid() {
			r.Header.Set(forwardedForHeader, client.String())
		}

		next.ServeHTTP(w, r)
	})
}

func contains(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// hopsOf returns the addresses through which a request came, the last one last, as the proxies wrote them.
func hopsOf(header http.Header) []string {
	var hops []string
	for hop := range strings.SplitSeq(strings.Join(header.Values(forwardedForHeader), ","), ",") {
		if strings.TrimSpace(hop) != "" {
			hops = append(hops, hop)
		}
	}
	if len(hops) > 0 {
		return hops
	}

	for _, line := range header.Values(forwardedHeader) {
		// After a quote that a client left open, the address that the proxy added would be part of the client's text.
		if !forwardedLine.MatchString(line) {
			hops = append(hops, line)
			continue
		}

		for _, pair := range forwardedPairs.FindAllStringSubmatch(line, -1) {
			if strings.EqualFold(pair[1], "for") {
				hops = append(hops, pair[2])
			}
		}
	}

	return hops
}

// parseHop reads an address, with or without quotes, brackets, port and zone.
func parseHop(text string) (netip.Addr, bool) {
	text = strings.Trim(strings.TrimSpace(text), `"`)
	if inner, ok := strings.CutPrefix(text, "["); ok {
		text, _, _ = strings.Cut(inner, "]")
	} else if strings.Count(text, ":") == 1 {
		text, _, _ = strings.Cut(text, ":")
	}
	addr, err := netip.ParseAddr(text)
	return addr.Unmap().WithZone(""), err == nil
}
