package main

import (
	"errors"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// The error for an invalid setting is one line that names the setting as it was given.
func TestInvalidSettings(t *testing.T) {
	const (
		arn      = "an ARN like arn:aws:"
		number   = "a whole number above 0"
		duration = "a duration above 0, like 500ms, 30s or 168h"
		alone    = "none with clusterArn: AWS knows the network of an MSK cluster"
	)
	for _, c := range []struct {
		name, value, want string
		with              values // what is set too
	}{
		{"example", "true", `ledger, the demonstration (lambda/handler)`, nil},
		{"example", "ledger", "none with runtime python3.13: ", wrapped(t, "python3.13", "app.handler")},
		{"onDemand", "1", `true or false`, nil},
		{"batching", "off", `true or false`, nil},
		{"deletionProtection", "on", "true or false", nil},
		{"batchSize", "many", number, nil},
		{"memory", "-1", number, nil},
		{"pollersMax", "0", number, nil},
		{"lease", "30", duration, nil},
		{"retention", "-1h", duration, nil},
		{"bootstrapServers", "b-1:9092,,b-2:9092", "names separated by single commas", nil},
		{"topics", "a,", "TOPIC, or TOPIC=GROUP for any but the first, separated by commas", nil},
		{"startingPosition", "yesterday", "TRIM_HORIZON, LATEST, or a time like 2026-11-21T06:00:00Z", nil},
		{"retries", "often", "infinite, or a whole number, 0 or more", nil},
		{"onFailure", "mail", "none, queue, topic:NAME or the ARN of an S3 bucket", nil},
		{"wait", "long", "deadline, or a duration, 0 or more, like 500ms, 30s or 168h", nil},
		{"retryDelay", "-1s", "a duration, 0 or more, like 500ms, 30s or 168h", nil},
		{"outageFailures", "0", "off, or a whole number above 0", nil},
		{"maxResult", "-1", "a whole number, 0 or more", nil},
		{"removalPolicy", "snapshot", "retain or destroy", nil},
		{"kmsKeyArn", "key-1", arn + "kms:REGION:ACCOUNT:…", nil},
		{"alarmTopicArn", "oncall", arn + "sns:REGION:ACCOUNT:…", nil},
		{"vpc", "main", "an ID like vpc-0123456789abcdef0", nil},
		{"subnets", "subnet-1,net", "IDs like subnet-0123456789abcdef0, separated by commas", nil},
		{"filters", `{"value":1}`, `a JSON array of patterns, like [{"value":{"kind":["payment"]}}]: `, nil},
		{"environment", `["A"]`, `a JSON object of strings, like {"BANK_URL":"https://bank.example"}: `, nil},
		{"stackName", "1st", "a letter, then up to 127 letters, digits or '-'", nil},
		{"outbox", "false", "true with a setting of the outbox or its relay", values{"outboxTable": "events"}},
		{"maintenance", "false", "true with a setting of it", values{"reconcileEvery": "6h"}},
		{"storeTable", "t", "none with store dynamodb: its table is tableName", nil},
		{"tableName", "keys", "none with store redis, which has storeTable",
			values{"store": "redis", "storeUrl": "redis://h"}},
		{"securityGroups", "sg-0123456789abcdef0", "vpc with it", nil},

		// What the construct refuses, in the words of the settings.
		{"clusterArn", "payments", "arn:aws:kafka:REGION:ACCOUNT:cluster/NAME/UUID", nil},
		{"pollerLog", "TRACE", "one of INFO, DEBUG, WARN", nil},
		{"brokerSecurityGroups", "sg-1", alone, nil},
		{"vpcEndpoints", "true", "vpc with it", nil},
		{"onFailure", "queue,topic:payments", "none, queue, topic:NAME", nil},
		{"onFailure", "topic:payments", "a topic that is not consumed: AWS refuses the loop",
			values{"retries": 10, "retryDelay": 0}},
		{"tableName", "a b", "3 to 255 letters", nil},
		{"storeTable", "a{b}", "1 to 128 letters", values{"store": "redis", "storeUrl": "redis://h"}},
		{"schemaFormat", "avro", "one of json, source", values{"schemaRegistry": "https://registry"}},
		{"startingPosition", "0001-01-01T00:00:00Z", "a time with startingPosition AT_TIMESTAMP", nil},
		{"relayTimeout", "10s", "more than relayKafkaTimeout and a second, 11s: the relay would begin nothing",
			withOutbox(t)},
		{"outboxTopics", "", "the topics that handlers publish to: the relay may write no other",
			withOutbox(t, values{"outboxTopics": nil})},
		{"exportLag", "25h", "less than exportCovers, 25h", withMaintenance(t)},
	} {
		t.Run(c.name+" "+c.value, func(t *testing.T) {
			_, err := checked(plain(t, c.with, values{c.name: c.value}))
			if err == nil || strings.Contains(err.Error(), "\n") ||
				!strings.HasPrefix(err.Error(), c.name+" is ") || !strings.Contains(err.Error(), ": want "+c.want) {
				t.Errorf("%v; want one error, %s is …: want %s", err, c.name, c.want)
			}
		})
	}
}

// Each property of the construct has a setting, so that an error can name it.
func TestEveryPropertyHasASetting(t *testing.T) {
	for _, path := range properties(reflect.TypeFor[consumer.Props](), "") {
		if name := (&settings{}).settingOf(path); name == path {
			t.Errorf("%s has no setting", path)
		}
	}
}

// properties returns the paths of the properties of a group and of those within.
func properties(group reflect.Type, path string) (all []string) {
	for _, field := range reflect.VisibleFields(group) {
		of := field.Type
		if of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		all = append(all, path+field.Name)
		if of.Kind() == reflect.Struct && of.PkgPath() == reflect.TypeFor[consumer.Props]().PkgPath() {
			all = append(all[:len(all)-1], properties(of, path+field.Name+".")...)
		}
	}
	return all
}

func TestAllErrorsAreReportedTogether(t *testing.T) {
	_, err := checked(plain(t, values{
		"batchSize": 20_000, "lease": "2h", "consumerGroup": "a b", "retention": "1s",
		"stackName": "my_stack", "auth": "mtls",
	}))
	equal(t, "the errors", strings.Split(text(err), "\n"), []string{
		`stackName is "my_stack": want a letter, then up to 127 letters, digits or '-'`,
		`consumerGroup is "a b": want 1 to 200 letters, digits or any of -/*:_+=.@`,
		`batchSize is "20000": want 1 to 10000`,
		`secretArn is "": want the ARN of the secret that auth mtls needs`,
		`lease is "2h": want a duration like 30s or 168h, from 100ms to 1h0m0s`,
	})
}

func TestUnknownSettingIsRefused(t *testing.T) {
	for given, want := range map[string]string{
		"batchsize": "batchsize is no setting; is it batchSize? (infra/cdk/README.md lists them)",
		"price":     "price is no setting (infra/cdk/README.md lists them)",
		"nmaespace": "nmaespace is no setting; is it namespace? (infra/cdk/README.md lists them)",
	} {
		_, err := checked(plain(t, values{given: "x", "aws:cdk:toolkit": true, "@aws-cdk/core:flag": true}))
		equal(t, "the error", text(err), want)
	}
	_, err := checked(plain(t), "IDEMSK_CDK_BATCHSIZE=10")
	equal(t, "the error", text(err), "IDEMSK_CDK_BATCHSIZE is no setting; is it IDEMSK_CDK_BATCH_SIZE? "+
		"(infra/cdk/README.md lists them)")
}

// Without code of one's own the example must be named.
func TestOwnCodeOrTheExample(t *testing.T) {
	_, err := checked(plain(t, values{"code": nil}))
	equal(t, "the error", text(err), `code is "": want the directory or the .zip file of the function's program, `+
		"which is named bootstrap, or example=ledger, the demonstration")
	s, err := checked(plain(t))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "what is built for code of one's own", s.built, []string(nil))
}

// The defaults of files are what scripts/build.sh makes for the architecture and the store.
func TestBuiltFiles(t *testing.T) {
	python := wrapped(t, "python3.13", "app.handler")
	delete(python, "layerZip")
	amd64, redis := values{"architecture": "x86_64"}, values{"store": "redis", "storeUrl": "rediss://h:6379"}
	ledger := values{"code": nil, "example": "ledger"}
	for want, given := range map[string][]values{
		"code ../../dist/handler-arm64":                     {ledger},
		"code ../../dist/handler-amd64":                     {ledger, amd64},
		"code ../../dist/handler-arm64-redis":               {ledger, redis},
		"code ../../dist/handler-arm64-postgres":            {ledger, onPostgres()},
		"layerZip ../../dist/idemsk-layer-arm64.zip":        {python},
		"layerZip ../../dist/idemsk-layer-x86_64.zip":       {python, amd64},
		"layerZip ../../dist/idemsk-layer-arm64-redis.zip":  {python, redis},
		"layerZip ../../dist/idemsk-layer-x86_64-redis.zip": {python, redis, amd64},
		"layerZip my-layer.zip":                             {python, {"layerZip": "my-layer.zip"}},
		"relayCode ../../dist/relay-arm64":                  {withOutbox(t, values{"relayCode": nil})},
		"relayCode ../../dist/relay-amd64":                  {withOutbox(t, values{"relayCode": nil}), amd64},
		"maintenanceCode ../../dist/maintenance-arm64":      {withMaintenance(t, values{"maintenanceCode": nil})},
		"maintenanceCode ../../dist/maintenance-amd64":      {withMaintenance(t, values{"maintenanceCode": nil}), amd64},
	} {
		t.Run(want, func(t *testing.T) {
			context := plain(t, given...)
			t.Chdir(t.TempDir())
			s, err := checked(context)
			var wrong *consumer.PropError
			if !errors.As(err, &wrong) || wrong.Prop+" "+wrong.Value != want {
				t.Errorf("error %v, want one of %s", err, want)
			}
			if _, file, ok := strings.Cut(want, dist); ok && s != nil {
				equal(t, "what is built", s.built, []string{file})
			}
		})
	}
}

func TestContextOverridesTheEnvironment(t *testing.T) {
	s, err := checked(plain(t, values{"maxAttempts": 3}), "IDEMSK_CDK_BATCH_SIZE=7",
		"IDEMSK_CDK_MAX_ATTEMPTS=9", "IDEMSK_CDK_CLUSTER_ARN=nonsense", "IDEMSK_LEASE=1s")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "batchSize, of the environment", s.Source.BatchSize, 7)
	equal(t, "maxAttempts, of the context", s.Idempotency.MaxAttempts, 3)
}

func TestListsMayBeJSON(t *testing.T) {
	s, err := checked(plain(t, values{"topics": []any{"a", "b=group-b"}}))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "topics", s.Source.Topics, []consumer.Topic{{Name: "a"}, {Name: "b", Group: "group-b"}})
}

func TestNetworkSettingsMustBeComplete(t *testing.T) {
	network := values{"vpc": "vpc-0123456789abcdef0", "subnets": "subnet-0123456789abcdef0",
		"vpcEndpoints": true}
	_, err := checked(plain(t, network))
	equal(t, "the errors", strings.Split(text(err), "\n"), []string{
		`subnets is "[subnet-0123456789abcdef0]": want one private subnet of vpc for each of availabilityZones, []`,
		`routeTables is "[]": want the route table of each of subnets, for DynamoDB's endpoint`,
	})
}

// README.md has a row for each setting, in the same order, and no other rows.
func TestReadmeListsEverySetting(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows, want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-zA-Z]+)` \\|").FindAllSubmatch(readme, -1) {
		rows = append(rows, string(row[1]))
	}
	for _, s := range allSettings {
		want = append(want, s.name)
	}
	equal(t, "the rows", rows, want)
}
