package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// The error for an invalid setting is one line that names the setting as it was given.
func TestInvalidSettings(t *testing.T) {
	const arn = "an ARN like arn:aws:"
	for name, c := range map[string]struct{ value, want string }{
		"example":            {"yes", `true or false`},
		"onDemand":           {"1", `true or false`},
		"batchSize":          {"many", "a whole number above 0"},
		"memory":             {"-1", "a whole number above 0"},
		"pollersMax":         {"0", "a whole number above 0"},
		"lease":              {"30", "a duration above 0, like 500ms, 30s or 168h"},
		"retention":          {"-1h", "a duration above 0, like 500ms, 30s or 168h"},
		"bootstrapServers":   {"b-1:9092,,b-2:9092", "names separated by single commas"},
		"topics":             {"a,", "TOPIC, or TOPIC=GROUP for any but the first, separated by commas"},
		"startingPosition":   {"yesterday", "TRIM_HORIZON, LATEST, or a time like 2026-11-21T06:00:00Z"},
		"retries":            {"often", "infinite, or a whole number from 0 to 10000"},
		"schemaFormat":       {"avro", "json or source"},
		"schemaValidate":     {"header", "key, value or key,value"},
		"onFailure":          {"mail", "none, queue, topic:NAME or the ARN of an S3 bucket"},
		"wait":               {"long", "deadline, 0, or a duration like 5s"},
		"retryDelay":         {"-1s", "a duration like 500ms or 1s, or 0 for no delay"},
		"outageFailures":     {"0", "off, or a whole number above 0"},
		"maxResult":          {"-1", "a whole number of bytes, 0 for none"},
		"deletionProtection": {"on", "true or false"},
		"removalPolicy":      {"snapshot", "retain or destroy"},
		"kmsKeyArn":          {"key-1", arn + "kms:REGION:ACCOUNT:…"},
		"alarmTopicArn":      {"oncall", arn + "sns:REGION:ACCOUNT:…"},
		"vpc":                {"main", "an ID like vpc-0123456789abcdef0"},
		"subnets":            {"subnet-1,net", "IDs like subnet-0123456789abcdef0, separated by commas"},
		"filters": {`{"value":1}`,
			`a JSON array of patterns, like [{"value":{"kind":["payment"]}}]: `},
		"environment": {`["A"]`,
			`a JSON object of strings, like {"BANK_URL":"https://bank.example"}: `},
		"stackName":            {"1st", "a letter, then up to 127 letters, digits or '-'"},
		"clusterArn":           {"payments", "arn:aws:kafka:REGION:ACCOUNT:cluster/NAME/UUID"},
		"pollerLog":            {"TRACE", "one of DEBUG, INFO, WARN"},
		"brokerSecurityGroups": {"sg-1", "none with clusterArn: AWS knows the network of an MSK cluster"},
		"securityGroups":       {"sg-0123456789abcdef0", "vpc with it"},
		"vpcEndpoints":         {"true", "a vpc with it"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readSettings(plain(t, values{name: c.value}), noEnvironment)
			if err == nil || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%s=%s: %v; want one error", name, c.value, err)
			}
			if !strings.HasPrefix(err.Error(), name+" is ") ||
				!strings.Contains(err.Error(), ": want "+c.want) {
				t.Errorf("%v; want %s is …: want %s", err, name, c.want)
			}
		})
	}
}

func TestAllErrorsAreReportedTogether(t *testing.T) {
	_, err := readSettings(plain(t, values{
		"batchSize": 20_000, "lease": "2h", "consumerGroup": "a b", "retention": "1h",
		"stackName": "my_stack", "auth": "mtls",
	}), noEnvironment)
	equal(t, "the errors", strings.Split(text(err), "\n"), []string{
		`stackName is "my_stack": want a letter, then up to 127 letters, digits or '-'`,
		`secretArn is "": want the ARN of the secret that auth mtls needs`,
		`consumerGroup is "a b": want 1 to 200 letters, digits or any of -/*:_+=.@`,
		`batchSize is "20000": want 1 to 10000`,
		`lease is "2h": want 100ms to 1h`,
		`retention is "1h": want 2h to 87600h`,
		`timeout is "1m": want more than lease, 2h: an invocation could never wait for a dead one's lease`,
	})
}

func TestUnknownSettingIsRefused(t *testing.T) {
	_, err := readSettings(plain(t, values{"batchsize": 10, "aws:cdk:toolkit": true,
		"@aws-cdk/core:flag": true}), noEnvironment)
	equal(t, "the error", text(err), "batchsize is no setting: infra/cdk/README.md lists them")
}

func TestErrorOfMissingBootstrapNamesItsMakeTarget(t *testing.T) {
	for setting, dir := range map[string]string{"arm64": "../../dist/handler-arm64",
		"x86_64": "../../dist/handler-amd64"} {
		t.Chdir(t.TempDir())
		_, err := readSettings(plain(t, values{"architecture": setting, "codeDir": nil}), noEnvironment)
		equal(t, setting, text(err), `codeDir is "`+dir+
			`": want a directory with the function's program, but there is no `+dir+
			"/bootstrap: run `make build`")
	}
}

func TestContextOverridesTheEnvironment(t *testing.T) {
	env := map[string]string{"IDEMSK_CDK_BATCH_SIZE": "7", "IDEMSK_CDK_MAX_ATTEMPTS": "9",
		"IDEMSK_CDK_CLUSTER_ARN": "nonsense"}
	s, err := readSettings(plain(t, values{"maxAttempts": 3}),
		func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "batchSize, of the environment", s.props.BatchSize, 7)
	equal(t, "maxAttempts, of the context", s.props.MaxAttempts, 3)
}

func TestListsMayBeJSON(t *testing.T) {
	s, err := readSettings(plain(t, values{"topics": []any{"a", "b=group-b"}}), noEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "topics", s.props.Topics, []consumer.Topic{{Name: "a"}, {Name: "b", Group: "group-b"}})
}

func TestNetworkSettingsMustBeComplete(t *testing.T) {
	network := values{"vpc": "vpc-0123456789abcdef0", "subnets": "subnet-0123456789abcdef0",
		"vpcEndpoints": true}
	_, err := readSettings(plain(t, network), noEnvironment)
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
