package clitest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
)

// Console is a running idemsk console.
type Console struct {
	t          *testing.T
	url, token string
}

// OpenConsole runs idemsk console until the end of the test.
func OpenConsole(t *testing.T, flags ...string) *Console {
	t.Helper()
	read, write := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Main(ctx, append([]string{"console", "--ui", "127.0.0.1:0"}, flags...),
			cli.Streams{Out: io.Discard, Err: write}, "v1")
		_ = write.Close()
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("idemsk console: exit %d", code)
		}
	})
	buf := make([]byte, 4096)
	n, _ := read.Read(buf)
	go func() { _, _ = io.Copy(io.Discard, read) }() // ends with the pipe
	p := &Console{t: t, url: regexp.MustCompile(`http://127\S+/`).FindString(string(buf[:n]))}
	_, page := p.Ask(http.MethodGet, "", nil)
	found := regexp.MustCompile(`name="token" content="([A-Z0-9]{20,})"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no page: %s %s", buf[:n], page)
	}
	p.token = found[1]
	return p
}

// Ask sends a request, and returns the status and the text of the answer.
func (p *Console) Ask(method, path string, body any) (status int, text string) {
	p.t.Helper()
	sent, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(string(sent)))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("X-Idemsk-Token", p.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// Answer asks for a value, which must be given.
func Answer[T any](p *Console, method, path string, body any) (v T) {
	p.t.Helper()
	status, text := p.Ask(method, path, body)
	if err := json.Unmarshal([]byte(text), &v); err != nil || status != http.StatusOK {
		p.t.Errorf("%s %s: %d %s %v", method, path, status, text, err)
	}
	return v
}

// Refused asks for what must be refused, with a status and a message.
func (p *Console) Refused(method, path string, body any, want int, says string) {
	p.t.Helper()
	if status, text := p.Ask(method, path, body); status != want || !strings.Contains(text, says) ||
		!strings.HasPrefix(text, `{"error":`) {
		p.t.Errorf("%s %s: %d %s; want %d and %q", method, path, status, text, want, says)
	}
}
