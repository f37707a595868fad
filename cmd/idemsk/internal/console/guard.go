package console

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
)

// tokenHeader has the token of the page in a request that changes something.
const tokenHeader = "X-Idemsk-Token" //nolint:gosec // the name of a header

// policy allows the page its own script, style and requests, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guard lets through the requests of the page itself.
type guard struct {
	next     http.Handler
	host     string // the host of the address that is listened on
	password string // "" for none
	token    string
}

// ServeHTTP refuses a request under another name (a site whose name was rebound to this address), from
// another site, without the password, or one that changes something without the token of the page.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	site := r.Header.Get("Sec-Fetch-Site")
	origin := r.Header.Get("Origin")
	switch {
	case !g.knows(r.Host):
		http.Error(w, "this page is served under its address only", http.StatusMisdirectedRequest)
	case origin != "" && origin != "http://"+r.Host, site != "" && site != "same-origin" && site != "none":
		http.Error(w, "requests of other sites are refused", http.StatusForbidden)
	case !g.hasPassword(r):
		h.Set("WWW-Authenticate", `Basic realm="idemsk", charset="UTF-8"`)
		http.Error(w, "give the password of IDEMSK_UI_PASSWORD, with any user name", http.StatusUnauthorized)
	case r.Method != http.MethodGet && !same(r.Header.Get(tokenHeader), g.token):
		http.Error(w, "the token of the page is missing or old: reload the page", http.StatusForbidden)
	default:
		g.next.ServeHTTP(w, r)
	}
}

// knows reports whether a Host is an IP address, which no name can be rebound to, localhost, or the host that
// is listened on. Browsers leave out port 80.
func (g *guard) knows(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	return host != "" && (net.ParseIP(host) != nil || host == "localhost" || host == g.host)
}

func (g *guard) hasPassword(r *http.Request) bool {
	_, password, _ := r.BasicAuth()
	return g.password == "" || same(password, g.password)
}

// same compares secrets in constant time.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
