package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

const storeSecret = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:payments/database-AbCdEf"

// onPostgres are settings of a function whose keys are in PostgreSQL, in a private VPC.
func onPostgres() values {
	return values{
		"store": "postgres", "storeUrl": "postgres://db.example.com:5432/payments",
		"storeSecretArn": storeSecret, "storeSecretKeyArn": kmsKey,
		"vpc": "vpc-0123456789abcdef0", "subnets": "subnet-0123456789abcdef0",
		"availabilityZones": "eu-central-1a",
		"securityGroups":    "sg-0123456789abcdef0", "routeTables": "rtb-0123456789abcdef0",
		"vpcEndpoints": true,
	}
}

func TestKeysInPostgreSQL(t *testing.T) {
	st := build(t, plain(t, onPostgres()))
	tpl := templateOf(t, st.Stack)
	equal(t, "tables", len(tpl.of(globalTable)), 0)
	equal(t, "the output of a table", tpl["Outputs"].(values)["TableName"], nil)
	env := variables(t, tpl)
	for name, want := range map[string]any{
		"IDEMSK_STORE": "postgres", "IDEMSK_STORE_URL": "postgres://db.example.com:5432/payments",
		"IDEMSK_STORE_SECRET_ARN": storeSecret,
		"IDEMSK_TABLE":            "idemsk", "IDEMSK_CONCURRENCY": "8", "IDEMSK_LEDGER_TABLE": nil,
	} {
		equal(t, name, env[name], want)
	}
	may := make(map[string]bool)
	for _, s := range statements(t, tpl) {
		for _, a := range s.actions {
			for _, r := range s.resources {
				may[a.(string)+" "+arnOf(r)] = true
			}
			if strings.HasPrefix(a.(string), "dynamodb:") {
				t.Errorf("the function may %v", a)
			}
		}
	}
	for _, want := range []string{"secretsmanager:GetSecretValue " + storeSecret, "kms:Decrypt " + kmsKey} {
		equal(t, "the function may "+want, may[want], true)
	}
	equal(t, "an alarm of DynamoDB", st.consumer.Alarms[consumer.AlarmStoreThrottles], nil)
	equal(t, "an alarm of every store", build(t, plain(t)).consumer.Alarms[consumer.AlarmStoreDown] != nil,
		true)
	equal(t, "an alarm of the store", st.consumer.Alarms[consumer.AlarmStoreDown] != nil, true)
	var endpoints []string
	for name := range st.consumer.Endpoints {
		endpoints = append(endpoints, name)
	}
	slices.Sort(endpoints)
	equal(t, "endpoints", endpoints, []string{"secretsmanager", "sqs"})
	equal(t, "security groups", at(t, tpl.of(function)[tpl.id(t, "ConsumerFunction")], "VpcConfig",
		"SecurityGroupIds"), []string{"sg-0123456789abcdef0"})
}

func TestKeysInRedis(t *testing.T) {
	tpl := synthesise(t, plain(t, values{"store": "redis", "storeSecretArn": storeSecret,
		"storeTable": "app:keys"}))
	env := variables(t, tpl)
	for name, want := range map[string]any{
		"IDEMSK_STORE": "redis", "IDEMSK_STORE_URL": nil, "IDEMSK_STORE_SECRET_ARN": storeSecret,
		"IDEMSK_TABLE": "app:keys", "IDEMSK_CONCURRENCY": "32",
	} {
		equal(t, name, env[name], want)
	}
	equal(t, "tables", len(tpl.of(globalTable)), 0)
}

// What contradicts itself is refused with one line for each.
func TestInvalidStoreSettings(t *testing.T) {
	const dynamo = ": want none with store dynamodb"
	for name, c := range map[string]struct {
		given values
		want  []string
	}{
		"unknown": {values{"store": "mysql"},
			[]string{`store is "mysql": want one of dynamodb, postgres, redis`}},
		"DynamoDB's is made": {values{"storeUrl": "redis://h", "storeTable": "t"},
			[]string{`storeUrl is "redis://h"` + dynamo, `storeTable is "t"` + dynamo}},
		"no server": {values{"store": "redis"},
			[]string{`storeUrl is "": want rediss://HOST:PORT, or storeSecretArn`}},
		"another's URL": {values{"store": "redis", "storeUrl": "postgres://h/d"},
			[]string{`storeUrl is "postgres://h/d": want rediss://HOST:PORT`}},
		"no URL": {values{"store": "postgres", "storeUrl": "h:5432"}, []string{`storeUrl is `}},
		"unreadable": {values{"store": "postgres", "storeUrl": "postgres://u:hush%zz@h"},
			[]string{`storeUrl is "…": want postgres://HOST:PORT/DATABASE`}},
		"a password": {values{"store": "postgres", "storeUrl": "postgres://u:hush@h/d"},
			[]string{`storeUrl is "postgres://u:xxxxx@h/d": want a URL without user and password`}},
		"no ARN": {values{"store": "redis", "storeSecretArn": "payments"},
			[]string{`storeSecretArn is "payments": want arn:aws:secretsmanager:`}},
		"a key for no secret": {values{"store": "redis", "storeUrl": "redis://h",
			"storeSecretKeyArn": kmsKey},
			[]string{`storeSecretKeyArn is "` + kmsKey + `": want storeSecretArn with it`}},
		"a table of DynamoDB": {values{"store": "redis", "storeUrl": "redis://h", "tableName": "keys"},
			[]string{`tableName is "keys": want none with store redis, which has storeTable`}},
		"insights": {values{"store": "redis", "storeUrl": "redis://h",
			"contributorInsights": true}, []string{`contributorInsights is "true": want none`}},
		"claims by partition": {values{"store": "postgres", "storeUrl": "postgres://h/d",
			"claim": "partition"}, []string{`claim is "partition": want key with store postgres: only`}},
		"an outbox": {withOutbox(t, values{"store": "redis", "storeUrl": "redis://h"}),
			[]string{`outbox is "set": want none with store redis: `}},
		"a name of PostgreSQL": {values{"store": "postgres", "storeUrl": "postgres://h/d",
			"storeTable": "a.b.c"}, []string{`storeTable is "a.b.c": want a table's name`}},
		"a prefix of Redis": {values{"store": "redis", "storeUrl": "redis://h", "storeTable": "a{b}"},
			[]string{`storeTable is "a{b}": want 1 to 128`}},
		"set twice": {values{"store": "redis", "storeUrl": "redis://h",
			"environment": `{"IDEMSK_STORE_URL":"redis://i"}`},
			[]string{`environment is "IDEMSK_STORE_URL": want other names`}},
		"a claim set twice": {values{"store": "redis", "storeUrl": "redis://h",
			"environment": `{"IDEMSK_CLAIM":"partition"}`},
			[]string{`environment is "IDEMSK_CLAIM": want other names`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readSettings(plain(t, c.given), noEnvironment)
			lines := strings.Split(text(err), "\n")
			equal(t, "errors", len(lines), len(c.want))
			for i, want := range c.want {
				if i < len(lines) && (!strings.HasPrefix(lines[i], want) ||
					strings.Contains(lines[i], "hush")) {
					t.Errorf("%s; want %s", lines[i], want)
				}
			}
		})
	}
}

func TestProgramMatchesTheStore(t *testing.T) {
	for store, dir := range map[string]string{"postgres": "../../dist/handler-arm64-postgres",
		"redis": "../../dist/handler-arm64-redis"} {
		t.Chdir(t.TempDir())
		_, err := readSettings(plain(t, values{"store": store, "storeSecretArn": storeSecret,
			"codeDir": nil}), noEnvironment)
		equal(t, store, strings.HasPrefix(text(err), `codeDir is "`+dir+`": want`), true)
	}
}
