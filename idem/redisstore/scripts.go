package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // how Redis names scripts
	_ "embed"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem/internal/chunks"
)

// The common part of the scripts, and one script for each transition. They implement the rules of
// idem/store/rules.go in Lua.
var (
	//go:embed lua/prelude.lua
	preludeLua string
	//go:embed lua/claim.lua
	claimLua string
	//go:embed lua/settle.lua
	settleLua string
	//go:embed lua/delete.lua
	deleteLua string
	//go:embed lua/time.lua
	timeLua string
)

// serverClock is the Lua expression of the server's time in epoch milliseconds.
const serverClock = "millis(redis.call('TIME'))"

type scripts struct{ claim, settle, remove, time script }

// script is the text of a script and its SHA-1 name at the server.
type script struct{ text, sha string }

// newScripts returns the scripts with a clock. The first line of a script makes the server refuse it as a
// whole on a read-only replica, with too few replicas, or when the memory is full. Settlements are allowed
// when the memory is full: they need little memory, and without them an effect could take place twice.
func newScripts(clock string) *scripts {
	build := func(flags, body string) script {
		text := "#!lua" + flags + "\n" +
			strings.NewReplacer("$NOW", clock, "$LARGE", strconv.Itoa(largeResult)).Replace(preludeLua) + body
		sum := sha1.Sum([]byte(text)) //nolint:gosec // how Redis names scripts
		return script{text: text, sha: hex.EncodeToString(sum[:])}
	}
	return &scripts{
		claim:  build("", claimLua),
		settle: build(" flags=allow-oom", settleLua),
		remove: build(" flags=allow-oom", deleteLua),
		time:   build(" flags=no-writes", timeLua),
	}
}

// call is one execution of a script on a key.
type call struct {
	script *script
	key    string
	args   []any
	cmd    *redis.Cmd

	answer answer // if err is nil
	err    error
}

// run executes calls in one pipeline. After a restart the server does not know the scripts: run then sends
// these calls again, with the scripts, in a second pipeline. Finally it reads the results that were too large
// for the answers.
//
// The client retries a pipeline after a broken connection. Each call recognises its own write (rule 5).
func (s *Store) run(ctx context.Context, calls []call) {
	all := make([]*call, len(calls))
	ended := ctx.Err() // the context's error may change later
	for i := range calls {
		calls[i].err = ended
		all[i] = &calls[i]
	}
	if ended != nil {
		return
	}
	s.send(ctx, all, func(p redis.Pipeliner, c *call) *redis.Cmd {
		return p.EvalSha(ctx, c.script.sha, []string{s.name(c.key)}, c.args...)
	})
	var unknown []*call
	for _, c := range all {
		if redis.HasErrorPrefix(c.cmd.Err(), "NOSCRIPT") {
			unknown = append(unknown, c)
		}
	}
	if len(unknown) > 0 {
		s.send(ctx, unknown, func(p redis.Pipeliner, c *call) *redis.Cmd {
			return p.Eval(ctx, c.script.text, []string{s.name(c.key)}, c.args...)
		})
	}
	var large []*call
	for _, c := range all {
		if c.answer, c.err = readAnswer(c.key, c.cmd); c.err == nil && c.answer.large > 0 {
			large = append(large, c)
		}
	}
	s.readLarge(ctx, large)
}

// largeResult is the size in bytes above which a result is left out of a script's answer, so that the answers
// to a batch arrive within one attempt.
const largeResult = 4 << 10

var errChanged = errors.New("the result changed while it was read: try again")

// readLarge reads the results that were left out of answers, in pipelines of up to 1 MiB.
func (s *Store) readLarge(ctx context.Context, calls []*call) {
	for from, to := range chunks.Of(len(calls), maxBatchSize,
		func(i int) int { return calls[i].answer.large }) {
		names := make([]string, to-from)
		for i, c := range calls[from:to] {
			names[i] = s.name(c.key)
		}
		for i, h := range s.readHashes(ctx, names) {
			calls[from+i].complete(h)
		}
	}
}

// complete sets the answer's entry from a later read of the hash.
func (c *call) complete(h hash) {
	before := &c.answer.entry
	entry, err := decode(c.key, h.fields)
	switch {
	case h.err != nil:
		c.err = h.err
	case len(h.fields) == 0 || err == nil && (entry.Token != before.Token || entry.Status != before.Status):
		c.err = errChanged
	case err != nil:
		c.err = err
	default:
		c.answer.entry = entry
	}
}

// hash is the hash of a name.
type hash struct {
	fields map[string]string // empty if there is no hash
	err    error
}

// readHashes reads the hashes of names in one pipeline.
func (s *Store) readHashes(ctx context.Context, names []string) []hash {
	p := s.client.Pipeline()
	cmds := make([]*redis.MapStringStringCmd, len(names))
	for i, name := range names {
		cmds[i] = p.HGetAll(ctx, name)
	}
	_, failed := p.Exec(ctx)
	hashes := make([]hash, len(names))
	for i, cmd := range cmds {
		h := &hashes[i]
		if h.fields, h.err = cmd.Result(); h.err == nil && h.fields == nil {
			h.err = failed // see send
		}
	}
	return hashes
}

// send sends calls in one pipeline.
func (s *Store) send(ctx context.Context, calls []*call, queue func(p redis.Pipeliner, c *call) *redis.Cmd) {
	p := s.client.Pipeline()
	for _, c := range calls {
		c.cmd = queue(p, c)
	}
	_, err := p.Exec(ctx)
	if err == nil {
		err = errAnswer
	}
	for _, c := range calls {
		if c.cmd.Err() == nil && c.cmd.Val() == nil { // without a connection only Exec returns the error
			c.cmd.SetErr(err)
		}
	}
}
