package consumer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

const storeSecret = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:payments/database-AbCdEf"

// onPostgres makes it a function whose keys are in PostgreSQL, in a private VPC.
func onPostgres() change {
	return func(p *props) {
		p.Store.Type = "postgres"
		p.Store.URL = "postgres://db.example.com:5432/payments"
		p.Store.SecretARN = storeSecret
		p.Store.SecretKeyARN = kmsKey
		p.subnets = 1
		p.VPCEndpoints = true
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
	may := mayDo(t, tpl, "ConsumerRoleDefaultPolicy")
	equal(t, "the function may use DynamoDB", strings.Contains(text(may), "dynamodb:"), false)
	for _, want := range []string{"secretsmanager:GetSecretValue " + storeSecret, "kms:Decrypt " + kmsKey} {
		equal(t, "the function may "+want, slices.Contains(may, want), true)
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
	tpl := synthesise(t, plain(t, func(p *props) {
		p.Store.Type = "redis"
		p.Store.SecretARN = storeSecret
		p.Store.Table = "app:keys"
	}))
	env := variables(t, tpl)
	for name, want := range map[string]any{
		"IDEMSK_STORE": "redis", "IDEMSK_STORE_URL": nil, "IDEMSK_STORE_SECRET_ARN": storeSecret,
		"IDEMSK_TABLE": "app:keys", "IDEMSK_CONCURRENCY": "32",
	} {
		equal(t, name, env[name], want)
	}
	equal(t, "tables", len(tpl.of(globalTable)), 0)
}

func TestLoginToRedisByIAM(t *testing.T) {
	const cache = "arn:aws:elasticache:eu-central-1:111122223333:replicationgroup:keys"
	const server = "rediss://payments@keys.example.com:6379?iam=" + cache
	tpl := synthesise(t, plain(t, withMaintenance(t, func(p *props) { p.Store.Type = "redis"; p.Store.URL = server })))
	equal(t, "the server", at(t, tpl.of(function)[tpl.id(t, "ConsumerFunction")], "Environment", "Variables",
		"IDEMSK_STORE_URL"), any(server))
	for _, role := range []string{"ConsumerRoleDefaultPolicy", "ConsumerMaintenanceRoleDefaultPolicy"} {
		may := mayDo(t, tpl, role)
		for _, resource := range []string{cache, "arn:aws:elasticache:eu-central-1:111122223333:user:payments"} {
			equal(t, role+" on "+resource, slices.Contains(may, "elasticache:Connect "+resource), true)
		}
		equal(t, role+" and secrets", strings.Contains(text(may), "secretsmanager:"), false)
	}
}
