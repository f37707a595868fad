package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// settings are what the context and the environment say.
type settings struct {
	stackName             string
	terminationProtection bool
	example               bool
	kmsKeyARN             string
	alarmTopicARN         string
	network               network
	withOutbox            bool
	outbox                consumer.OutboxProps
	props                 consumer.Props
}

// setting is one of them. README.md has a row for each.
type setting struct {
	name string // in the context
	prop string // of consumer.Props, whose checks speak of it; "" if it is the app's own
	set  func(s *settings, value string) error
}

// Defaults of the app's own; those of the construct are in its package.
const (
	defaultStack = "idemsk"

	// Where `make build` leaves the function, and the relay; arm64 or amd64 follows.
	builtFor      = "../../dist/handler-"
	relayBuiltFor = "../../dist/relay-"
)

// readSettings reads and checks everything, and returns all that is wrong at once, one line each.
func readSettings(context map[string]any, lookupEnv func(string) (string, bool)) (*settings, error) {
	s := &settings{stackName: defaultStack, example: true}
	errs := unknown(context)
	for _, setting := range allSettings {
		value, ok := lookup(setting.name, context, lookupEnv)
		if !ok || value == "" {
			continue
		}
		if err := setting.set(s, value); err != nil {
			errs = append(errs, fmt.Errorf("%s is %q: want %w", setting.name, value, err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return s, s.check()
}

// lookup finds a setting, in the context first.
func lookup(name string, context map[string]any, lookupEnv func(string) (string, bool)) (string, bool) {
	if value, ok := context[name]; ok {
		return text(value), true
	}
	return lookupEnv(envName(name))
}

// envName is the environment variable of a setting: IDEMSK_CDK_BATCH_SIZE is batchSize.
func envName(name string) string {
	var b strings.Builder
	b.WriteString("IDEMSK_CDK_")
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}

// text returns a value as -c would have given it: cdk.json may also hold numbers, booleans and lists.
func text(value any) string {
	list, ok := value.([]any)
	if !ok {
		return fmt.Sprint(value)
	}
	items := make([]string, len(list))
	for i, item := range list {
		items[i] = fmt.Sprint(item)
	}
	return strings.Join(items, ",")
}

// unknown returns an error for everything in the context that is neither a setting nor the CDK's own.
func unknown(context map[string]any) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(context)) {
		if strings.ContainsAny(name, ":/") { // aws:cdk:…, @aws-cdk/…, vpc-provider:…
			continue
		}
		if !slices.ContainsFunc(allSettings, func(s setting) bool { return s.name == name }) {
			errs = append(errs, fmt.Errorf("%s is no setting: infra/cdk/README.md lists them", name))
		}
	}
	return errs
}
