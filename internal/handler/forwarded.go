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

// identifyClient makes the RemoteAddr of a request from a trusted proxy that of the client, and the scheme of every URL the
// one that the browser uses. The client is in X-Forwarded-For, or else in Forwarded, as proxies write them: Azure and IIS
// append ports, IPv6 addresses have brackets, and Forwarded has quotes; gin knows one header with bare addresses. X-Real-IP
// is not read, because a proxy may pass it on from a client. A header that does not name the client is logged once, because
// all its clients then share the limits of one address.
func identifyClient(next http.Handler, trusted []netip.Prefix, log *slog.Logger) http.Handler {
	var unreadable sync.Once

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}

		if contains(trusted, address(r)) {
			// The first proxy is that of the browser.
			claimed := strings.Split(r.Header.Get("X-Forwarded-Proto"), ",")
			if claimed[0] == "" {
				claimed = append(forwardedValues(r.Header, "proto"), "")
			}
			if strings.EqualFold(strings.TrimSpace(claimed[0]), "https") {
				scheme = "https"
			}

			proxy := r.RemoteAddr

			// The last address that is not of a trusted proxy is the client. What stands before it is the client's own word.
			for _, hop := range slices.Backward(hopsOf(r.Header)) {
				client, ok := parseHop(hop)
				if !ok {
					unreadable.Do(func() {
						log.Warn("a trusted proxy names no address of the client: its clients share the limits of one address", "header", hop, "proxy", proxy)
					})
					break
				}

				r.RemoteAddr = netip.AddrPortFrom(client, 0).String()
				if !contains(trusted, client) {
					break
				}
			}
		}

		r.URL.Scheme = scheme
		next.ServeHTTP(w, r)
	})
}

// address returns the address in RemoteAddr. The zero Addr stands for all clients without one.
func address(r *http.Request) netip.Addr {
	client, _ := netip.ParseAddrPort(r.RemoteAddr)
	return client.Addr().Unmap().WithZone("")
}

// ParseProxies parses addresses and networks; IPv4 ones in the form of IPv6 are IPv4. It leaves out any other entry.
func ParseProxies(list []string) []netip.Prefix {
	var parsed []netip.Prefix
	for _, text := range list {
		p, _ := netip.ParsePrefix(text)
		if a, err := netip.ParseAddr(text); err == nil {
			p = netip.PrefixFrom(a, a.BitLen())
		}

		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		if p.IsValid() {
			parsed = append(parsed, p.Masked())
		}
	}
	return parsed
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
	return forwardedValues(header, "for")
}

// forwardedValues returns the values with a name in the Forwarded header, the last one last. For a line that cannot be read it
// returns the line.
func forwardedValues(header http.Header, name string) []string {
	var values []string
	for _, line := range header.Values(forwardedHeader) {
		// After a quote that a client left open, the address that the proxy added would be part of the client's text.
		if !forwardedLine.MatchString(line) {
			values = append(values, line)
			continue
		}

		for _, pair := range forwardedPairs.FindAllStringSubmatch(line, -1) {
			if strings.EqualFold(pair[1], name) {
				// A backslash escapes the next character, and neither addresses nor schemes have one.
				values = append(values, strings.ReplaceAll(strings.Trim(pair[2], `"`), `\`, ""))
			}
		}
	}

	return values
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
