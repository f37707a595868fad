package verb

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/internal/text/words"
)

// resolvePage sets the address of the page. A run that ends by itself has none, unless --ui asks for it.
func (l *invocation) resolvePage() {
	o := &l.opt
	switch {
	case l.ui == "off", l.ui == "" && (o.UntilDrained || l.events != "" || o.Queue != ""):
	case l.ui == "":
		o.UI = local.UI{Addr: console.Address, Fallback: true}
	default:
		o.UI = local.UI{Addr: l.ui, Password: os.Getenv("IDEMSK_UI_PASSWORD")}
	}
}

// localStack is LocalStack's default URL.
const localStack = "http://127.0.0.1:4566"

// fromLocalStack sets the parameters from a deployed mapping.
func (l *invocation) fromLocalStack(ctx context.Context) (err error) {
	allowed := []string{
		"from-localstack", "endpoint-url", "region", "brokers", "tls", "tls-ca", "tls-cert", "tls-key",
		"auth", "secret-arn",
		"topic", "function-name", "partitions", "broker-port", "produce", "producer-duplicates", "seed",
		"schema-registry",
		"until-drained", "ui", "duplicate", "concurrent-duplicates", "slow", "retry", "log",
	}
	wanted := local.Wanted{}
	for _, name := range l.given() {
		switch {
		case !slices.Contains(allowed, name):
			return command.Usagef(
				"--%s and --from-localstack exclude each other: the deployed mapping sets it", name)
		case name == "topic":
			wanted.Topic = l.topic
		case name == "function-name":
			wanted.Function = l.opt.FunctionName
		}
	}
	l.Endpoint = cmp.Or(l.Endpoint, localStack)
	l.opt.Endpoint, l.opt.AWS = true, l.Load
	l.serving, err = local.FromMapping(ctx, &l.opt, l.Endpoint, wanted)
	return err
}

// resolveMapping sets the mapping's parameters from flags that have another form.
func (l *invocation) resolveMapping() error {
	c := &l.opt.ESM
	if l.age != 0 {
		c.MaximumRecordAge = l.age
	}
	if l.responses != "" {
		c.FunctionResponseTypes = strings.Split(l.responses, ",")
	}
	if c.FilterCriteria = l.filter; strings.HasPrefix(l.filter, "@") {
		text, err := os.ReadFile(l.filter[1:])
		if err != nil {
			return err
		}
		c.FilterCriteria = string(text)
	}
	if l.opt.SchemaRegistry != "" {
		c.SchemaRegistry = &esm.SchemaRegistry{EventRecordFormat: l.format,
			Attributes: strings.Split(l.validation, ",")}
	}
	if l.opt.Queue != "" {
		return l.resolveQueue()
	}
	if l.events != "" {
		return l.readEvents()
	}
	return nil
}

// resolveQueue sets the parameters that have another default for a queue, and refuses those of a topic.
func (l *invocation) resolveQueue() error {
	excluded := []string{
		"events", "brokers", "broker-port", "topic", "partitions", "consumer-group-id", "starting-position",
		"starting-position-timestamp", "maximum-retry-attempts", "maximum-record-age",
		"bisect-batch-on-function-error", "retry", "filter-criteria", "schema-registry", "on-failure", "ui",
		"host", "invoke", "compare",
	}
	c := &l.opt.ESM
	const size = 10 // AWS's default for a queue, whose window is 0
	batch, window := size, time.Duration(0)
	for _, name := range l.given() {
		switch {
		case slices.Contains(excluded, name):
			return command.Usagef("--%s and --sqs exclude each other: it is not for a queue", name)
		case name == "batch-size":
			batch = c.BatchSize
		case name == "maximum-batching-window":
			window = c.MaximumBatchingWindow
		}
	}
	c.Topics, c.BatchSize, c.MaximumBatchingWindow = []string{l.opt.Queue}, batch, window
	if l.opt.Visibility == 0 {
		l.opt.Visibility = c.Timeout
	}
	return nil
}

// readEvents reads the recorded events of --events.
func (l *invocation) readEvents() (err error) {
	excluded := []string{
		"brokers", "broker-port", "topic", "partitions", "consumer-group-id", "produce",
		"producer-duplicates", "batch-size", "maximum-batching-window",
		"starting-position", "starting-position-timestamp", "filter-criteria", "pollers", "schema-registry",
	}
	for _, name := range l.given() {
		if slices.Contains(excluded, name) {
			return command.Usagef("--%s and --events exclude each other: recorded events are delivered "+
				"unchanged, one after another", name)
		}
	}
	l.opt.ESM.Events, err = local.ReadEvents(l.events)
	return err
}

// checkHost refuses flags that processes have no use for.
func (l *invocation) checkHost() error {
	lambda := []string{
		"batch-size", "maximum-batching-window", "starting-position", "starting-position-timestamp",
		"maximum-retry-attempts", "maximum-record-age",
		"bisect-batch-on-function-error", "function-response-types", "retry", "filter-criteria", "on-failure",
		"pollers", "timeout", "init-timeout",
		"from-localstack", "schema-registry", "event-record-format", "schema-validation",
	}
	for _, name := range l.given() {
		switch {
		case l.opt.Host == local.HostProcess && slices.Contains(lambda, name):
			return command.Usagef("--%s and --host process exclude each other: it is a parameter of the "+
				"event source or of the function", name)
		case l.opt.SchemaRegistry == "" && (name == "event-record-format" || name == "schema-validation"):
			return command.Usagef("--%s needs --schema-registry", name)
		case l.opt.Queue == "" && name == "visibility-timeout":
			return command.Usagef("--visibility-timeout needs --sqs")
		case l.opt.Host != local.HostProcess && name == "processes":
			return command.Usagef("--processes needs --host process")
		}
	}
	return nil
}

// resolve sets the options that flags do not set.
func (l *invocation) resolve(ctx context.Context) (err error) {
	o := &l.opt
	o.ESM.Topics = []string{l.topic}
	if l.Brokers != "" {
		o.Brokers = strings.Split(l.Brokers, ",")
	}
	if o.Seed == 0 {
		o.Seed = uint64(rand.Uint32()) + 1 //nolint:gosec // a seed is no secret
	}
	if o.Kafka, err = l.Options(ctx, l.Region); err != nil {
		return err
	}
	if err := l.checkHost(); err != nil {
		return err
	}
	l.resolvePage()
	if l.deployed {
		return l.fromLocalStack(ctx)
	}
	if err := l.resolveMapping(); err != nil {
		return err
	}
	if o.Store == "postgres" || o.Store == "redis" {
		if o.Store = os.Getenv("IDEMSK_STORE_URL"); o.Store == "" {
			return command.Usagef(
				"--store postgres and --store redis take the URL from IDEMSK_STORE_URL, which is not set")
		}
	}
	if err := l.resolveFunction(); err != nil {
		return err
	}
	if o.Invoke != "" {
		o.FunctionName = cmp.Or(o.FunctionName, "function") // the name that runtime interface emulators use
	}
	o.FunctionName = cmp.Or(o.FunctionName, "idemsk-local")
	endpoint := l.Endpoint
	if o.Endpoint = endpoint != ""; !o.Endpoint {
		endpoint = o.Invoke // it gets default credentials too, if it is on this machine
	}
	o.AWS = func(ctx context.Context) (aws.Config, error) {
		at := l.AWS
		at.Endpoint = endpoint
		return at.Load(ctx)
	}
	return nil
}

// resolveFunction sets the function's command.
func (l *invocation) resolveFunction() error {
	o := &l.opt
	if l.layer {
		if err := l.wrap(); err != nil {
			return err
		}
	}
	if o.Function == "" && o.Invoke == "" {
		path, err := findExample(o)
		if err != nil {
			return err
		}
		o.Example = true
		o.Function = words.Quote(path)
	}
	if o.Prove && o.Function != "" && !o.IsExample() {
		return command.Usagef("--prove needs the example function, because it reads the ledger that the "+
			"example writes, and can't read the effects of %q. "+
			"--bookings names what another function booked more than once", o.Function)
	}
	return l.checkLetters()
}

// wrap puts the layer in front of the function's command.
func (l *invocation) wrap() error {
	if l.opt.Function == "" || l.opt.Store == local.StoreNone {
		return command.Usagef(
			"--layer needs --function with the command of a function, and a --store for the keys")
	}
	behind, err := local.BehindLayer(l.opt.Function)
	l.opt.Function = behind
	return err
}

// findExample looks for the example's program for the host.
func findExample(o *local.Options) (string, error) {
	if o.Host == local.HostProcess {
		return local.FindConsumer()
	}
	return local.FindFunction(o.Build())
}
