package simulation_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/layercall"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/deadletter/sqs"
)

// process is a process of the function, package app/lambda with everything below it, or a member of a
// consumer group. It has a network of its own.
type process struct {
	*world
	name       string
	deployment int
	offset     time.Duration    // of its clock
	fn         *lambda.Function // nil in a group
	turn       gate             // held during an invocation
	aws        aws.Config
	link       *link
	client     *dynamodb.Client // of the handler
	handler    kafka.HandlerFunc
	health     health
	lastOpened time.Time       // when its handler was last called without a claim
	alive      context.Context // done when the process has ended
	end        context.CancelFunc
}

var errCrashed = errors.New("Runtime exited") //nolint:staticcheck // Lambda's words

// newProcess returns a process that does not run yet.
func (w *world) newProcess(name string) *process {
	p := &process{world: w, name: name, turn: newGate(), health: newHealth(), deployment: w.deployed(),
		offset: w.offset(w.dice, name)}
	p.alive, p.end = context.WithCancel(w.stopping)
	w.mu.Lock()
	w.processes++
	w.mu.Unlock()
	p.link = newLink(w, p)
	p.aws = aws.Config{
		Region: "eu-central-1", HTTPClient: p.link,
		Credentials:  credentials.NewStaticCredentialsProvider("id", "secret", ""),
		BaseEndpoint: aws.String("http://aws.invalid"),
	}
	p.client, p.handler = dynamostore.NewClient(p.aws), p.newHandler()
	return p
}

// options give a host the process's network and clock: the store and the queue, with the clients that package
// app uses.
func (p *process) options() []app.Option {
	tables := app.WithStore(app.Store{
		Name: app.StoreDynamoDB,
		Read: func(v *app.Vars, c *app.Config) {
			c.Table = v.Table("IDEMSK_TABLE",
				dynamostore.DefaultTable)
		},
		Open: func(_ context.Context, b *app.Base) (store.Store, error) {
			clock := func() time.Time { return time.Now().Add(p.offset) }
			return dynamostore.New(p.client,
				dynamostore.Config{Table: b.Config.Table, MaxClockSkew: b.Config.MaxClockSkew, Clock: clock})
		},
	})
	letters := app.WithDeadLetterTopic(app.DeadLetterTopic{
		Read: func(*app.Vars) {},
		Open: func(context.Context, *app.Base) (kafka.DeadLetters, error) {
			client := awssqs.NewFromConfig(p.aws, func(o *awssqs.Options) {
				o.Retryer = retry.NewStandard(
					func(r *retry.StandardOptions) { r.MaxAttempts, r.MaxBackoff = 3, 200*time.Millisecond })
			})
			return sqs.New(client, sqs.Config{URL: p.url})
		},
	})
	return []app.Option{tables, letters}
}

// vars returns the environment of a process.
func (p *process) vars(more map[string]string) *app.Vars {
	env := p.environ(p.deployment)
	maps.Copy(env, more)
	return app.NewVars(func(name string) (string, bool) { s, ok := env[name]; return s, ok })
}

// start starts a process of the function.
func (w *world) start(name string) *process {
	p := w.newProcess(name)
	build := app.Build(p.build)
	if w.is("handler", "layer") {
		build = p.buildLayer
	}
	fn, err := lambda.New(p.alive, build, p.vars(nil), io.Discard, io.Discard, p.options()...)
	if err != nil {
		panic(err) // the settings are valid
	}
	p.fn = fn
	return p
}

// build is the app.Build of the function and of a member of a group.
func (p *process) build(_ context.Context, base *app.Base) (kafka.Handler, error) {
	if p.is("registry", "silent") {
		base.Config.Records.Key = p.askRegistry(base.Config.Records.Key)
	}
	if p.is("handler", "record") {
		return p.handler, nil
	}
	return kafka.BulkAttempts(p.handleAll), nil
}

// buildLayer is the app.Build of the layer.
func (p *process) buildLayer(ctx context.Context, base *app.Base) (kafka.Handler, error) {
	_, _ = p.build(ctx, base) // for the key
	return layercall.Build(ctx, base)
}

var errRegistry = errors.New("the schema registry does not answer")

// askRegistry returns a key function that needs a schema registry for some records.
func (p *process) askRegistry(next kafka.KeyFunc) kafka.KeyFunc {
	return func(ctx context.Context, r *kafka.Record) (string, error) {
		if p.during(registrySilent) && p.dice.chance(0.5, "schema of "+r.Source()) {
			_ = sleep(ctx, time.Minute) // the error is that of the registry
			return "", idem.Unavailable(errRegistry)
		}
		return next(ctx, r)
	}
}

func (p *process) ended() bool { return p.alive.Err() != nil }

// context returns the context of an invocation.
func (p *process) context(ctx context.Context, payload []byte) (context.Context, error) {
	if !p.is("handler", "layer") {
		return ctx, nil
	}
	return layercall.NewContext(ctx, payload, p.runtime)
}

// invoke invokes the function as Lambda does: a process has one invocation at a time, and one that does not
// answer in time is ended.
func (p *process) invoke(payload []byte) ([]byte, error) {
	p.turn.lock()
	defer p.turn.unlock()
	ctx, cancel := context.WithTimeout(p.alive, timeout)
	type answer struct {
		out []byte
		err error
	}
	answered := make(chan answer, 1)
	p.running.Go(func() {
		defer cancel()
		ctx, err := p.context(ctx, payload)
		if err != nil {
			answered <- answer{nil, err}
			return
		}
		out, err := p.fn.Invoke(ctx, payload)
		answered <- answer{out, err}
	})
	began := time.Now()
	select {
	case a := <-answered:
		if isExit(a.err) {
			p.end()
		}
		if p.ended() {
			return nil, errCrashed
		}
		p.checkReleased(began)
		p.checkHeldBack(began, a.err)
		p.checkOpened(began, a.err)
		return a.out, a.err
	case <-p.alive.Done():
		return nil, errCrashed
	case <-time.After(timeout):
		p.log(p.name, "the invocation times out")
		p.end()
		return nil, errCrashed
	}
}

// checkReleased checks that an invocation without a fault has released the keys that it has claimed and not
// handled.
func (p *process) checkReleased(began time.Time) {
	if p.link.failedSince(began) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, h := range p.keys {
		e := &h.entry
		claimed := e.status == started && e.retry == 0 && p.owners[e.owner] == p && h.claimed.After(began)
		// of an unknown outcome whose dead letter could not be sent
		kept := (h.takenOver || h.thrown == e.token) && p.is(effects, "at-most-once")
		if claimed && !kept && p.lastCall(key, e.token) == nil && !p.isPlace(key) {
			p.violatedLockedf(key, "is claimed by %s with token %d still after its invocation, and was not handled", p.name, e.token)
		}
	}
}
