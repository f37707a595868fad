package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
	"github.com/idemsk/idemsk/internal/text/near"
)

// settings are the values that the context and the environment set. Its fields are exported for reflection.
type settings struct {
	consumer.Props

	StackName             string
	TerminationProtection bool
	Example               string // of exampleLedger, or none
	KMSKeyARN             string
	AlarmTopicARN         string
	WithOutbox            bool
	WithMaintenance       bool
	StoreTable, TableName string // of a server, and of DynamoDB

	// The VPC of the functions.
	VPCID                                                       string
	AvailabilityZones, SubnetIDs, RouteTableIDs, SecurityGroups []string

	// built are the names in dist of what scripts/build.sh must build for these settings.
	built []string
}

// setting describes one setting. README.md has a row for each.
type setting struct {
	name  string    // in the context
	field string    // the path of the field in settings
	parse parseFunc // parseValue if nil
}

// The defaults of the app. Those of the construct are in its package.
const (
	defaultStack = "idemsk"
	dist         = "../../dist/" // where scripts/build.sh puts what it builds
)

// exampleLedger is the name of the only example, lambda/handler.
const exampleLedger = "ledger"

// readSettings reads all settings. Its error has one line for each invalid setting. The result must be
// checked.
func readSettings(context map[string]any, environ []string) (*settings, error) {
	s := &settings{StackName: defaultStack}
	env := ofApp(environ)
	errs := unknown(context, env)
	for _, setting := range allSettings {
		value := env[envName(setting.name)]
		if given, ok := context[setting.name]; ok { // the context overrides the environment
			value = text(given)
		}
		if value == "" {
			continue
		}
		if err := setting.set(s, value); err != nil {
			errs = append(errs, fmt.Errorf("%s is %q: want %w", setting.name, value, err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	s.complete()
	return s, nil
}

// ours is the prefix of the environment variables of settings.
const ours = "IDEMSK_CDK_"

// ofApp returns the variables of an environment that name settings.
func ofApp(environ []string) map[string]string {
	env := make(map[string]string)
	for _, variable := range environ {
		if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, ours) {
			env[name] = value
		}
	}
	return env
}

// envName returns the environment variable of a setting, for example IDEMSK_CDK_BATCH_SIZE for batchSize.
func envName(name string) string {
	var b strings.Builder
	b.WriteString(ours)
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

// unknown returns an error for each name in the context that is neither a setting nor reserved by the CDK, and
// for each variable that is no setting.
func unknown(context map[string]any, env map[string]string) []error {
	names := make([]string, len(allSettings))
	fromEnv := make([]string, len(allSettings))
	for i, s := range allSettings {
		names[i], fromEnv[i] = s.name, envName(s.name)
	}
	var errs []error
	refuse := func(name, prefix string, known []string) {
		if slices.Contains(known, name) {
			return
		}
		perhaps := ""
		if meant := near.Of(name, prefix, known); meant != "" {
			perhaps = "; is it " + meant + "?"
		}
		errs = append(errs, fmt.Errorf("%s is no setting%s (infra/cdk/README.md lists them)", name, perhaps))
	}
	for _, name := range slices.Sorted(maps.Keys(context)) {
		if !strings.ContainsAny(name, ":/") { // aws:cdk:…, @aws-cdk/…, vpc-provider:…
			refuse(name, "", names)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		refuse(name, ours, fromEnv)
	}
	return errs
}

// check checks the settings after all were read. Its errors name the settings as they were given.
func (s *settings) check() error {
	var errs []error
	require := func(met bool, name string, value any, want string) {
		if !met {
			errs = append(errs, &consumer.PropError{Prop: name, Value: text(value), Want: want})
		}
	}
	require(stackName.MatchString(s.StackName), "stackName", s.StackName,
		"a letter, then up to 127 letters, digits or '-'")
	require(s.WithOutbox || s.Outbox == nil, "outbox", false, "true with a setting of the outbox or its relay")
	require(s.WithMaintenance || s.Maintenance == nil, "maintenance", false, "true with a setting of it")
	require(s.Example == "" || !s.wrapped(), "example", s.Example,
		"none with runtime "+s.Function.Runtime+": the example is a program in Go")
	dynamo := s.onDynamoDB()
	require(!dynamo || s.StoreTable == "", "storeTable", s.StoreTable,
		"none with store dynamodb: its table is tableName")
	require(dynamo || s.TableName == "", "tableName", s.TableName,
		"none with store "+string(s.Store.Type)+", which has storeTable")
	demo := s.Example != "" && strings.HasPrefix(s.Function.Code, dist)
	require(s.DeadLetters.BucketARN == "" || !demo,
		"deadLetterBucketArn", s.DeadLetters.BucketARN, "none with the example, which has no client of S3")
	checked := s.Props
	if !s.WithOutbox {
		checked.Outbox = nil
	}
	if !s.WithMaintenance {
		checked.Maintenance = nil
	}
	if s.VPCID != "" {
		checked.Network.VPC = notBuilt{}
		require(len(s.SubnetIDs) > 0 && len(s.SubnetIDs) == len(s.AvailabilityZones), "subnets", s.SubnetIDs,
			fmt.Sprintf("one private subnet of vpc for each of availabilityZones, %v", s.AvailabilityZones))
		require((!s.VPCEndpoints && len(s.RouteTableIDs) == 0) || len(s.RouteTableIDs) == len(s.SubnetIDs),
			"routeTables", s.RouteTableIDs, "the route table of each of subnets, for DynamoDB's endpoint")
	} else {
		require(len(s.AvailabilityZones) == 0, "availabilityZones", s.AvailabilityZones, "vpc with it")
		require(len(s.SubnetIDs) == 0, "subnets", s.SubnetIDs, "vpc with it")
		require(len(s.RouteTableIDs) == 0, "routeTables", s.RouteTableIDs, "vpc with it")
		require(len(s.SecurityGroups) == 0, "securityGroups", s.SecurityGroups, "vpc with it")
	}
	return errors.Join(append(errs, s.inSettings(consumer.Check(checked))...)...)
}

// onDynamoDB reports whether the keys are in DynamoDB.
func (s *settings) onDynamoDB() bool {
	return s.Store.Type == "" || s.Store.Type == consumer.StoreDynamoDB
}

// wrapped reports whether the function is behind the layer.
func (s *settings) wrapped() bool {
	return s.Function.Runtime != "" && s.Function.Runtime != consumer.ProvidedAL2023
}

// complete sets the store's table, and what scripts/build.sh builds: the example's function, or the layer for
// a function in another language; the relay, and the maintenance.
func (s *settings) complete() {
	if s.Store.Table = s.StoreTable; s.onDynamoDB() {
		s.Store.Table = s.TableName
	}
	use := func(file *string, name string) {
		if *file == "" {
			*file = dist + name
			s.built = append(s.built, name)
		}
	}
	f, architecture, store := &s.Function, "arm64", ""
	if f.Architecture == consumer.X8664 {
		architecture = "amd64"
	}
	if given := s.Store.Type; given == consumer.StorePostgres || given == consumer.StoreRedis {
		store = "-" + string(given)
	}
	if s.wrapped() {
		use(&f.LayerZip, "idemsk-layer-"+string(cmp.Or(f.Architecture, consumer.ARM64))+store+".zip")
	} else if s.Example != "" {
		use(&f.Code, "handler-"+architecture+store)
	}
	if s.WithOutbox {
		s.Outbox = cmp.Or(s.Outbox, &consumer.Outbox{})
		use(&s.Outbox.RelayCode, "relay-"+architecture)
	}
	if s.WithMaintenance {
		s.Maintenance = cmp.Or(s.Maintenance, &consumer.Maintenance{})
		use(&s.Maintenance.Code, "maintenance-"+architecture)
	}
}

// notBuilt is a placeholder for an existing VPC, for Check.
type notBuilt struct{ awsec2.IVpc }

// inSettings replaces the paths of properties in the construct's errors by the names of settings.
func (s *settings) inSettings(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	errs := joined.Unwrap()
	for i, err := range errs {
		var wrong *consumer.PropError
		if errors.As(err, &wrong) {
			want := path.ReplaceAllStringFunc(wrong.Want, s.settingOf)
			if wrong.Prop == "Function.Code" && wrong.Value == "" {
				want += ", or example=" + exampleLedger + ", the demonstration"
			}
			errs[i] = &consumer.PropError{Prop: s.settingOf(wrong.Prop), Value: wrong.Value, Want: want}
		}
	}
	return errs
}

// path matches the path of a property in a message.
var path = regexp.MustCompile(`\b[A-Z][A-Za-z]+(\.[A-Z][A-Za-z]+)+|VPCEndpoints`)

// settingOf returns the name of the setting that sets a property, or its group.
func (s *settings) settingOf(property string) string {
	switch property {
	case "Store.Table":
		if s.TableName != "" {
			return "tableName"
		}
		return "storeTable"
	case "Outbox", "Maintenance":
		return strings.ToLower(property)
	case "EncryptionKey":
		return "kmsKeyArn"
	case "Alarms.Topic":
		return "alarmTopicArn"
	case "Network.VPC", "Outbox.Network.VPC": // the app has one VPC for all functions
		return "vpc"
	case "Network.Subnets", "Outbox.Network.Subnets":
		return "subnets"
	case "Network.SecurityGroups", "Outbox.Network.SecurityGroups":
		return "securityGroups"
	case "Source.StartingTimestamp":
		return "startingPosition"
	}
	for of := property; of != ""; {
		for _, setting := range allSettings {
			if setting.field == of {
				return setting.name
			}
		}
		of = of[:max(0, strings.LastIndexByte(of, '.'))]
	}
	return property
}

var stackName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,127}$`)
