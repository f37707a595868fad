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

// settings are the values that the context and the environment set.
type settings struct {
	stackName             string
	terminationProtection bool
	example               bool
	kmsKeyARN             string
	alarmTopicARN         string
	network               network
	withOutbox            bool
	outbox                consumer.OutboxProps
	withMaintenance       bool
	maintenance           consumer.MaintenanceProps
	props                 consumer.Props
}

// setting describes one setting. README.md has a row for each.
type setting struct {
	name string // in the context
	prop string // the field of consumer.Props that the construct's errors name; "" for a setting of the app
	set  func(s *settings, value string) error
}

// The defaults of the app. Those of the construct are in its package.
const (
	defaultStack = "idemsk"

	// Where `make build` puts the functions and the layer; arm64 or amd64 is appended.
	builtFor      = "../../dist/handler-"
	relayBuiltFor = "../../dist/relay-"
	layerBuiltFor = "../../dist/idemsk-layer-" // the architecture as Lambda names it

	maintenanceBuiltFor = "../../dist/maintenance-"
)

// readSettings reads and checks all settings. Its error has one line for each invalid setting.
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

// lookup returns the value of a setting. The context overrides the environment.
func lookup(name string, context map[string]any, lookupEnv func(string) (string, bool)) (string, bool) {
	if value, ok := context[name]; ok {
		return text(value), true
	}
	return lookupEnv(envName(name))
}

// envName returns the environment variable of a setting, for example IDEMSK_CDK_BATCH_SIZE for batchSize.
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

// text returns a value in the form in which -c passes it. cdk.json may also contain numbers, booleans and
// lists.
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

// unknown returns an error for each name in the context that is neither a setting nor reserved by the CDK.
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
