package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
)

func TestMain(m *testing.M) {
	// net/http waits for 500 ms before it closes a connection whose request it did not read to the end.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// hostile is what a record may contain.
const hostile = `</script><img src=x onerror="alert(1)">&"'/#?` + "\u2028"

// source is a run with one of each.
type source struct {
	mu      sync.Mutex
	done    int
	actions []console.Action
}

func (s *source) Run() console.Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done++
	return console.Run{Title: hostile, Counts: []console.Count{{Name: "done", Value: s.done}}}
}

func (*source) Keys(q console.Query) console.Keys {
	return console.Keys{Keys: []console.Key{{Key: q.Has + hostile, State: q.State}}}
}

func (*source) History(key string) (console.History, bool) {
	return console.History{Key: console.Key{Key: key}}, key == hostile
}

func (*source) Invocations() console.Invocations {
	return console.Invocations{Invocations: []console.Invocation{{Number: 7}}, Dropped: 6}
}

func (*source) Invocation(number int) (console.Detail, bool) {
	return console.Detail{Event: hostile}, number == 7
}

func (*source) Letters(context.Context) ([]console.Letter, error) {
	return nil, errors.New("the queue is gone")
}

func (*source) Verdict(context.Context) (console.Verdict, error) {
	return console.Verdict{Why: hostile}, nil
}

func (s *source) Do(_ context.Context, a console.Action) (string, error) {
	if a.Action == "" {
		return "", fmt.Errorf("%w: none", console.ErrAction)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actions = append(s.actions, a)
	return "done", nil
}

func start(t *testing.T, c console.Config) (url string, s *source) {
	t.Helper()
	s = new(source)
	c.Source = s
	if c.Addr == "" {
		c.Addr = "127.0.0.1:0"
	}
	server, err := console.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return server.URL(), s
}

// ask sends a request. header has names and values; Host is the Host.
func ask(t *testing.T, method, url, body string, header ...string) (status int, text string, h http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

// tokenIn returns the token in a page.
func tokenIn(t *testing.T, url string, header ...string) string {
	t.Helper()
	_, page, _ := ask(t, http.MethodGet, url, "", header...)
	found := regexp.MustCompile(`name="token" content="([A-Z0-9]{20,})"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page has no token:\n%s", page)
	}
	return found[1]
}

// A name that was rebound to the address, another site, and a page without the token are refused, and nothing
// is done.
func TestRequestsOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	url, s := start(t, console.Config{})
	token := tokenIn(t, url)
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/")
	port := host[strings.LastIndexByte(host, ':'):]
	const post, get = http.MethodPost, http.MethodGet
	for _, test := range []struct {
		name, method, path string
		header             []string
		want               int
	}{
		{"a rebound name", get, "api/run", []string{"Host", "evil.example" + port},
			http.StatusMisdirectedRequest},
		{"a rebound name without a port", get, "", []string{"Host", "evil.example"},
			http.StatusMisdirectedRequest},
		{"another origin", get, "api/run", []string{"Origin", "http://evil.example"}, http.StatusForbidden},
		{"the origin of a sandboxed frame", post, "api/actions",
			[]string{"Origin", "null", "X-Idemsk-Token", token}, http.StatusForbidden},
		{"another port", post, "api/actions",
			[]string{"Origin", "http://127.0.0.1:1", "X-Idemsk-Token", token}, http.StatusForbidden},
		{"another site", get, "api/keys", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{"no token", post, "api/actions", nil, http.StatusForbidden},
		{"a wrong token", post, "api/actions", []string{"X-Idemsk-Token", token + "x"}, http.StatusForbidden},
		{"another method", http.MethodPut, "api/actions", []string{"X-Idemsk-Token", token},
			http.StatusMethodNotAllowed},
		{"the page", get, "", nil, http.StatusOK},
		{"localhost", get, "", []string{"Host", "localhost" + port, "Origin", "http://localhost" + port},
			http.StatusOK},
		{"localhost, port 80", get, "", []string{"Host", "localhost", "Origin", "http://localhost"},
			http.StatusOK},
		{"an address, port 80", get, "", []string{"Host", "127.0.0.1", "Origin", "http://127.0.0.1"},
			http.StatusOK},
		{"an address of IPv6, port 80", get, "", []string{"Host", "[::1]", "Origin", "http://[::1]"},
			http.StatusOK},
		{"an action of the page", post, "api/actions",
			[]string{"Origin", "http://" + host, "Sec-Fetch-Site", "same-origin", "X-Idemsk-Token", token},
			http.StatusOK},
	} {
		status, body, h := ask(t, test.method, url+test.path, `{"action":"kill"}`, test.header...)
		if status != test.want {
			t.Errorf("%s: %d %s; want %d", test.name, status, body, test.want)
		}
		if p := h.Get("Content-Security-Policy"); !strings.Contains(p,
			"default-src 'none'; script-src 'self'; style-src 'self'") || strings.Contains(p, "unsafe") ||
			h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: the headers are %v", test.name, h)
		}
	}
	if len(s.actions) != 1 || s.actions[0].Action != console.ActionKill {
		t.Errorf("done: %+v; want the page's action alone", s.actions)
	}
}

func TestAddressThatOthersReachNeedsAPassword(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "203.0.113.7:0"} {
		if _, err := console.Start(console.Config{Addr: addr, Source: new(source)}); err == nil ||
			!strings.Contains(err.Error(), "IDEMSK_UI_PASSWORD") {
			t.Errorf("%s: %v; want an error with the variable of the password", addr, err)
		}
	}
	url, _ := start(t, console.Config{Password: "right"})
	for password, want := range map[string]int{"": http.StatusUnauthorized,
		"Basic OndyaXRl": http.StatusUnauthorized, "Basic OnJpZ2h0": http.StatusOK} {
		if status, body, _ := ask(t, http.MethodGet, url+"api/run", "", "Authorization",
			password); status != want {
			t.Errorf("%q: %d %s; want %d", password, status, body, want)
		}
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := console.Start(console.Config{Addr: l.Addr().String(), Source: new(source)}); err == nil {
		t.Error("started at a port that is in use")
	}
	if url, _ := start(t, console.Config{Addr: l.Addr().String(), Fallback: true}); strings.Contains(url,
		l.Addr().String()) {
		t.Errorf("the page is at %s", url)
	}
	if _, err := console.Start(console.Config{Addr: "here"}); err == nil ||
		!strings.Contains(err.Error(), "HOST:PORT") {
		t.Errorf("%v; want an error with the form of an address", err)
	}
}

// Hostile texts arrive as they are, in JSON.
func TestAPI(t *testing.T) {
	t.Parallel()
	page, s := start(t, console.Config{})
	token := tokenIn(t, page)
	encoded, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	q := url.QueryEscape(hostile)
	for _, test := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "api/run", "", 200, `"title":` + string(encoded)},
		{"GET", "api/keys?has=" + q + "&state=failed", "", 200, `"state":"failed"`},
		{"GET", "api/key?key=" + q, "", 200, `"key":` + string(encoded)},
		{"GET", "api/key?key=other", "", 404, `no history`},
		{"GET", "api/invocations", "", 200, `"dropped":6`},
		{"GET", "api/invocation?number=7", "", 200, `"event":` + string(encoded)},
		{"GET", "api/invocation?number=8", "", 404, `not kept`},
		{"GET", "api/invocation?number=x", "", 404, `not kept`},
		{"GET", "api/verdict", "", 200, `"why":` + string(encoded)},
		{"GET", "api/letters", "", 502, `the queue is gone`},
		{"GET", "api/other", "", 404, ``},
		{"GET", "assets/index.html", "", 404, ``},
		{"POST", "api/actions", `{"action":"produce","record":{"value":` + string(encoded) + `}}`, 200,
			`"done":"done"`},
		{"POST", "api/actions", `{}`, 400, `not available`},
		{"POST", "api/actions", `{"acton":"kill"}`, 400, `unknown field`},
		{"POST", "api/actions", `{"action":"kill"}{"action":"pause"}`, 400, `something follows`},
		{"POST", "api/actions", `{"action":"` + strings.Repeat("x", 2*console.MaxFile+2<<20), 400,
			`too large`},
	} {
		status, body, h := ask(t, test.method, page+test.path, test.body, "X-Idemsk-Token", token)
		if status != test.status || !strings.Contains(body, test.want) {
			t.Errorf("%s %.80s: %d %.300s; want %d with %s", test.method, test.path, status, body,
				test.status, test.want)
		}
		if strings.Contains(body, "<img") || status == http.StatusOK &&
			h.Get("Content-Type") != "application/json" {
			t.Errorf("%s %.80s: %v %.300s", test.method, test.path, h, body)
		}
	}
	if len(s.actions) != 1 || s.actions[0].Record.Value != hostile {
		t.Errorf("done: %+v", s.actions)
	}
}

// stream opens a stream of the page, which the caller closes.
func stream(ctx context.Context, t *testing.T, page string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page+"api/stream", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// A stream sends the latest state again and again, and ends with its reader or the server.
func TestStream(t *testing.T) {
	t.Parallel()
	page, _ := start(t, console.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp := stream(ctx, t, page)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for want := 1; want <= 3; {
		if !lines.Scan() {
			t.Fatalf("the stream has ended: %v", lines.Err())
		}
		var run console.Run
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if err := json.Unmarshal([]byte(data), &run); err != nil || run.Counts[0].Value != want {
			t.Errorf("state %d is %s, %v", want, data, err)
		}
		want++
	}
}

// The number of streams is bounded.
func TestTooManyStreams(t *testing.T) {
	t.Parallel()
	page, _ := start(t, console.Config{})
	for n := 1; ; n++ {
		resp := stream(t.Context(), t, page)
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable {
			if n != 65 {
				t.Errorf("stream %d is refused; want 64 of them", n)
			}
			return
		}
		if n > 65 {
			t.Fatal("more than 64 streams")
		}
	}
}

// What a browser loads for the page: at most 80 KB, all of it from here.
func TestAssets(t *testing.T) {
	t.Parallel()
	size := 0
	err := fs.WalkDir(os.DirFS("assets"), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile("assets/" + path)
		size += len(text)
		outside := strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", "")
		if strings.Contains(outside, "http://") || strings.Contains(outside, "https://") ||
			strings.Contains(outside, "innerHTML") {
			t.Errorf("%s refers to another place, or makes markup of text", path)
		}
		return err
	})
	if err != nil || size > 80<<10 {
		t.Errorf("the assets have %d bytes, %v; want at most 80 KB", size, err)
	}
	page, _ := start(t, console.Config{})
	for path, want := range map[string]string{"": "text/html", "common.js": "text/javascript",
		"console.js": "text/javascript", "console.css": "text/css"} {
		if status, _, h := ask(t, http.MethodGet, page+path, ""); status != http.StatusOK ||
			!strings.HasPrefix(h.Get("Content-Type"), want) {
			t.Errorf("%s: %d %v; want %s", path, status, h, want)
		}
	}
}
