package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // how Redis names scripts
	_ "embed"
	"encoding/hex"
	"strings"

	"github.com/redis/go-redis/v9"
)

// What the scripts share, and the scripts, one for each transition: the rules of package idem as they stand in rules.go,
// in Lua.
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

// serverClock is the time by which the scripts decide, as an expression of Lua: the server's, in epoch milliseconds.
const serverClock = "millis(redis.call('TIME'))"

type scripts struct{ claim, settle, remove, time script }

// script is a script and its name at the server.
type script struct{ text, sha string }

// newScripts returns the scripts with a clock. Their first line has the server refuse a script as a whole, before it has done
// anything: on a read-only replica, with too few replicas behind it, or when the memory is full. With a full memory
// settlements go on: they need little, and an effect that took place must not be forgotten for want of it.
func newScripts(clock string) *scripts {
	build := func(flags, body string) script {
		text := "#!lua" + flags + "\n" + strings.Replace(preludeLua, "$NOW", clock, 1) + body
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

// call is a run of a script on a key.
type call struct {
	script *script
	key    string
	args   []any

	cmd *redis.Cmd
	err error // nothing was sent
}

// run makes calls in one pipeline, and those whose script the server does not know, as after its restart, in a second one that
// brings the script along.
//
// The client sends a pipeline again when a connection breaks: each call recognises itself (rule 5).
func (s *Store) run(ctx context.Context, calls []call) {
	all := make([]*call, len(calls))
	for i := range calls {
		if err := ctx.Err(); err != nil {
			calls[i].err = err
		}
		all[i] = &calls[i]
	}
	if ctx.Err() != nil {
		return
	}
	s.send(ctx, all, func(p redis.Pipeliner, c *call) *redis.Cmd {
		return p.EvalSha(ctx, c.script.sha, []string{c.key}, c.args...)
	})
	var unknown []*call
	for _, c := range all {
		if redis.HasErrorPrefix(c.cmd.Err(), "NOSCRIPT") {
			unknown = append(unknown, c)
		}
	}
	if len(unknown) > 0 {
		s.send(ctx, unknown, func(p redis.Pipeliner, c *call) *redis.Cmd {
			return p.Eval(ctx, c.script.text, []string{c.key}, c.args...)
		})
	}
}

// send makes calls in one pipeline.
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
		if c.cmd.Err() == nil && c.cmd.Val() == nil { // where no connection could be made, Exec's error alone tells
			c.cmd.SetErr(err)
		}
	}
}
