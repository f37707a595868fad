//go:build servers

package redis_test

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/test/apptest"
	"github.com/idemsk/idemsk/internal/test/redisserver"
)

const (
	cacheARN  = "arn:aws:elasticache:eu-central-1:111122223333:replicationgroup:payments-cache"
	secretKey = "a-secret-access-key"
	cacheUser = "payments-user"
)

// cache stands for a node of ElastiCache in front of a server of Redis: it terminates TLS, checks the token of
// a login, and passes all other commands on.
type cache struct {
	server *redisserver.Server
	listen net.Listener

	mu      sync.Mutex
	session string        // the session token of the credentials that it accepts
	ahead   time.Duration // of its clock
	logins  int           // accepted
}

// certificate is that of each cache, which the tests trust.
var certificate = func() tls.Certificate {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return server.TLS.Certificates[0]
}()

func startCache(t *testing.T, server *redisserver.Server) *cache {
	t.Helper()
	apptest.Must(server.Do(t.Context(), "ACL", "SETUSER", cacheUser, "on", ">inside", "~*", "+@all"))
	c := &cache{server: server, session: "one"}
	var err error
	c.listen, err = tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := c.listen.Accept()
			if err != nil {
				return
			}
			all.Go(func() { c.serve(conn) })
		}
	})
	t.Cleanup(func() {
		c.listen.Close()
		all.Wait()
	})
	return c
}

func (c *cache) url() string {
	return "rediss://" + cacheUser + "@" + c.listen.Addr().String() + "?iam=" + cacheARN
}

// accept sets the session whose credentials are accepted, and the clock.
func (c *cache) accept(session string, ahead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session, c.ahead = session, ahead
}

func (c *cache) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.logins
}

// serve passes the commands of a connection on after its login.
func (c *cache) serve(conn net.Conn) {
	defer conn.Close()
	to, err := net.Dial("tcp", c.server.Addr())
	if err != nil {
		return
	}
	defer to.Close()
	from := bufio.NewReader(conn)
	for admitted := false; !admitted; {
		words, err := readCommand(from)
		if err != nil {
			return
		}
		for i := range words { // HELLO 3 AUTH user token, AUTH user token
			if strings.EqualFold(words[i], "auth") && i+2 < len(words) && c.valid(words[i+1], words[i+2]) {
				words[i+2], admitted = "inside", true
			}
		}
		if !admitted {
			_, _ = io.WriteString(conn, "-WRONGPASS invalid username-password pair or user is disabled.\r\n")
			continue
		}
		fmt.Fprintf(to, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(to, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(conn, to)
		_ = errors.Join(conn.Close(), to.Close())
	}()
	_, _ = io.Copy(to, from)
	_ = errors.Join(conn.Close(), to.Close())
	<-ended
}

// readCommand reads a command, an array of strings.
func readCommand(r *bufio.Reader) ([]string, error) {
	length := func() (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := length()
	if err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		size, err := length()
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		words[i] = string(text[:size])
	}
	return words, nil
}

// valid checks a token as Signature Version 4 prescribes.
func (c *cache) valid(user, token string) bool {
	u, err := url.Parse("http://" + token)
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	query := u.Query()
	signature, at := query.Get("X-Amz-Signature"), query.Get("X-Amz-Date")
	query.Del("X-Amz-Signature")
	made, err := time.Parse("20060102T150405Z", at)
	life, _ := strconv.Atoi(query.Get("X-Amz-Expires"))
	ends := made.Add(time.Duration(life) * time.Second)
	scope := []string{at[:8], "eu-central-1", "elasticache", "aws4_request"}
	empty := sha256.Sum256(nil)
	request := sha256.Sum256([]byte("GET\n/\n" + strings.ReplaceAll(query.Encode(), "+", "%20") +
		"\nhost:payments-cache\n\nhost\n" + hex.EncodeToString(empty[:])))
	key := []byte("AWS4" + secretKey)
	for _, s := range append(scope, "AWS4-HMAC-SHA256\n"+at+"\n"+strings.Join(scope, "/")+"\n"+
		hex.EncodeToString(request[:])) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(s))
		key = mac.Sum(nil)
	}
	ok := err == nil && life <= 900 && time.Now().Add(c.ahead).Before(ends) && user == query.Get("User") &&
		query.Get("Action") == "connect" && query.Get("X-Amz-Security-Token") == c.session &&
		signature == hex.EncodeToString(key)
	if ok {
		c.logins++
	}
	return ok
}

// role is the endpoint that gives a process the credentials of its role.
type role struct {
	mu      sync.Mutex
	session string // "": it refuses
	life    time.Duration
}

func startRole(t *testing.T, session string, life time.Duration) *role {
	t.Helper()
	r := &role{}
	r.give(session, life)
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": server.URL, "AWS_CONFIG_FILE": "/dev/null",
		"AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "",
		"AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_REGION": "us-east-1", // not that of the cache
	} {
		t.Setenv(name, value)
	}
	return r
}

func (r *role) give(session string, life time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session, r.life = session, life
}

func (r *role) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.session == "" {
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(map[string]string{"code": "AccessDenied", "message": "the role has expired"})
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": secretKey,
		"Token": r.session, "Expiration": time.Now().Add(r.life).UTC().Format(time.RFC3339)})
}

// through returns a client's option that dials the caches instead of their servers.
func through(caches map[string]*cache) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if c := caches[addr]; c != nil {
			addr = c.listen.Addr().String()
		}
		return (&tls.Dialer{}).DialContext(ctx, network, addr)
	}
}
