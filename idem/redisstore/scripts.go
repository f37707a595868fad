package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // how Redis names scripts
	_ "embed"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem/internal/chunks"
)

// The common parts of the scripts, and the transitions. They implement the rules of
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
	//go:embed lua/each.lua
	eachLua string
	//go:embed lua/time.lua
	timeLua string
)

// serverClock is the Lua expression of the server's time in epoch milliseconds.
const serverClock = "millis(redis.call('TIME'))"

type scripts struct{ claim, settle, remove, time script }

// script is the text of a script and its SHA-1 name at the server.
type script struct{ text, sha string }

// newScripts returns the scripts with a clock and a skew in ms. The first line of a script makes the server
// refuse it as a whole on a read-only replica, with too few replicas, or when the memory is full. Settlements are
// allowed when the memory is full: they need little memory, and without them an effect could take place twice.
func newScripts(clock string, skew int64) *scripts {
	values := strings.NewReplacer("$NOW", clock, "$SKEW", strconv.FormatInt(skew, 10),
		"$LARGE", strconv.Itoa(largeResult), "$ATTEMPTS", strconv.Itoa(maxCounted))
	build := func(flags string, parts ...string) script {
		text := "#!lua" + flags + "\n" + values.Replace(strings.Join(parts, ""))
		sum := sha1.Sum([]byte(text)) //nolint:gosec // how Redis names scripts
		return script{text: text, sha: hex.EncodeToString(sum[:])}
	}
	return &scripts{
		claim:  build("", preludeLua, claimLua, eachLua),
		settle: build(" flags=allow-oom", preludeLua, settleLua, eachLua),
		remove: build(" flags=allow-oom", preludeLua, deleteLua, eachLua),
		time:   build(" flags=no-writes", preludeLua, timeLua),
	}
}

// call is the transition of a key by a script.
type call struct {
	key string
	ask []byte // the argument

	answer answer // if err is nil
	err    error
}

// keysTogether is how many keys one execution of a script has at most. Meanwhile the server answers no other
// client: for about 0.2 ms. An execution itself costs about 30 µs.
const keysTogether = 50

// execution is one execution of a script.
type execution struct {
	calls []*call
	known bool // to the server, by its SHA-1
	cmd   *redis.Cmd
}

// run makes the transitions of calls in one pipeline. The executions that the server refuses are sent again in
// a second one: with the text of the script, after a restart of the server; and with one key each, if the keys
// are in different slots of a cluster. Finally run reads the results that were too large for the answers.
//
// The client retries a pipeline after a broken connection. Each transition recognises its own write (rule 5).
func (s *Store) run(ctx context.Context, script *script, calls []call) {
	all := make([]*call, 0, len(calls))
	ended := ctx.Err() // the context's error may change later
	for i := range calls {
		if c := &calls[i]; c.err == nil {
			c.err = ended
			all = append(all, c)
		}
	}
	if ended != nil {
		return
	}
	for todo := s.executions(all, true); len(todo) > 0; {
		s.send(ctx, script, todo)
		sent := todo
		todo = nil
		for _, e := range sent {
			todo = append(todo, s.answered(e)...)
		}
	}
	var large []*call
	for _, c := range all {
		if c.err == nil && c.answer.large > 0 {
			large = append(large, c)
		}
	}
	s.readLarge(ctx, large)
}

func (s *Store) executions(calls []*call, known bool) (all []*execution) {
	size := keysTogether
	if s.slots.Load() {
		size = 1
	}
	for chunk := range slices.Chunk(calls, size) {
		all = append(all, &execution{calls: chunk, known: known})
	}
	return all
}

// answered sets the answers of an execution's calls, or returns the executions that are to be sent instead.
func (s *Store) answered(e *execution) (again []*execution) {
	parts, err := e.cmd.Slice()
	switch {
	case redis.HasErrorPrefix(err, "NOSCRIPT") && e.known:
		return []*execution{{calls: e.calls}}
	case redis.HasErrorPrefix(err, "CROSSSLOT") && len(e.calls) > 1:
		s.slots.Store(true)
		return s.executions(e.calls, e.known)
	case err == nil && len(parts) != len(e.calls):
		err = errAnswer
	}
	for i, c := range e.calls {
		if c.err = err; err == nil {
			c.answer, c.err = readAnswer(c.key, parts[i])
		}
	}
	return nil
}

// send sends executions in one pipeline.
func (s *Store) send(ctx context.Context, script *script, all []*execution) {
	p := s.client.Pipeline()
	for _, e := range all {
		names := make([]string, len(e.calls))
		args := make([]any, len(e.calls))
		for i, c := range e.calls {
			names[i], args[i] = s.name(c.key), c.ask
		}
		if e.known {
			e.cmd = p.EvalSha(ctx, script.sha, names, args...)
		} else {
			e.cmd = p.Eval(ctx, script.text, names, args...)
		}
	}
	_, err := p.Exec(ctx)
	if err == nil {
		err = errAnswer
	}
	for _, e := range all {
		if e.cmd.Err() == nil && e.cmd.Val() == nil { // without a connection only Exec returns the error
			e.cmd.SetErr(err)
		}
	}
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
		for i, v := range s.readValues(ctx, names) {
			calls[from+i].complete(v)
		}
	}
}

// complete sets the answer's entry from a later read of the value.
func (c *call) complete(v value) {
	before := &c.answer.entry
	entry, err := decode(c.key, v.text)
	switch {
	case v.err != nil:
		c.err = v.err
	case v.text == "" || err == nil && (entry.Token != before.Token || entry.Status != before.Status):
		c.err = errChanged
	case err != nil:
		c.err = err
	default:
		c.answer.entry = entry
	}
}

// value is the value of a name.
type value struct {
	text string // empty if there is none
	err  error
}

// readValues reads the values of names in one pipeline.
func (s *Store) readValues(ctx context.Context, names []string) []value {
	p := s.client.Pipeline()
	cmds := make([]*redis.StringCmd, len(names))
	for i, name := range names {
		cmds[i] = p.Get(ctx, name)
	}
	_, failed := p.Exec(ctx)
	values := make([]value, len(names))
	for i, cmd := range cmds {
		v := &values[i]
		switch v.text, v.err = cmd.Result(); {
		case errors.Is(v.err, redis.Nil):
			v.err = nil
		case v.err == nil && v.text == "" && !errors.Is(failed, redis.Nil):
			v.err = failed // see send
		}
	}
	return values
}
