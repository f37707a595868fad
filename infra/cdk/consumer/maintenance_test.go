package consumer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// withMaintenance adds the maintenance, which compares keys with exports.
func withMaintenance(t *testing.T, more ...change) change {
	t.Helper()
	program := code(t)
	added := func(p *props) {
		p.Maintenance = &consumer.Maintenance{Code: program}
		p.Maintenance.Export.BucketARN = "arn:aws:s3:::exports/bookings/"
		p.Maintenance.Export.Field = "payment_id"
	}
	return all(added, all(more...))
}

// schedules returns the rates of the rules, and what they pass to which function.
func schedules(t *testing.T, tpl template) map[string][]any {
	t.Helper()
	found := make(map[string][]any)
	for _, rule := range tpl.of("AWS::Events::Rule") {
		equal(t, "state", rule["State"], "ENABLED")
		target := at(t, rule, "Targets", 0)
		found[at(t, target, "Input").(string)] = []any{rule["ScheduleExpression"], at(t, target, "Arn")}
	}
	return found
}

func TestMaintenance(t *testing.T) {
	tpl := synthesise(t, plain(t, withMaintenance(t)))
	fn := tpl.of(function)[tpl.id(t, "ConsumerMaintenance")]
	equal(t, "runtime, timeout and memory", []any{fn["Runtime"], fn["Timeout"], fn["MemorySize"]},
		[]any{"provided.al2023", 900, 512})
	equal(t, "network", fn["VpcConfig"], nil)
	equal(t, "its variables", at(t, fn, "Environment", "Variables"), values{
		"IDEMSK_STORE": "dynamodb", "IDEMSK_TABLE": tpl.ref(t, "ConsumerTable"),
		"IDEMSK_NAMESPACE": "payments-ledger", "IDEMSK_KEY_SCOPE": "topic",
		"IDEMSK_LOG_LEVEL": "INFO", "IDEMSK_EXPORT": "s3://exports/bookings/",
		"IDEMSK_EXPORT_FIELD": "payment_id", "IDEMSK_EXPORT_TOPIC": "payments",
		"IDEMSK_EXPORT_COVERS": "25h",
	})
	equal(t, "schedules", schedules(t, tpl),
		map[string][]any{`{"task":"reconcile"}`: {"rate(1 day)",
			tpl.getAtt(t, "ConsumerMaintenance", "Arn")}})
	may := tpl.one(t, "AWS::Lambda::Permission")
	equal(t, "who may invoke it", []any{may["Principal"], may["SourceArn"]},
		[]any{"events.amazonaws.com", tpl.getAtt(t, "ConsumerReconcileSchedule", "Arn")})
	equal(t, "retries", tpl.one(t, "AWS::Lambda::EventInvokeConfig")["MaximumRetryAttempts"], 0)
	equal(t, "its permissions", mayDo(t, tpl, "ConsumerMaintenanceRoleDefaultPolicy"), []string{
		"dynamodb:Scan ConsumerTable.Arn", "logs:CreateLogStream ConsumerMaintenanceLogs.Arn",
		"logs:PutLogEvents ConsumerMaintenanceLogs.Arn",
		"s3:GetObject arn:aws:s3:::exports/bookings/*", "s3:ListBucket arn:aws:s3:::exports",
	})
	for _, s := range at(t, tpl.of("AWS::IAM::Policy")[tpl.id(t, "ConsumerMaintenanceRoleDefaultPolicy")],
		"PolicyDocument", "Statement").([]any) {
		if at(t, s, "Action") == "s3:ListBucket" {
			equal(t, "names that it may list", at(t, s, "Condition"),
				values{"StringEquals": values{"s3:prefix": "bookings/"}})
		}
	}
	without := build(t, plain(t, withMaintenance(t, func(p *props) { p.Maintenance.Export.BucketARN = ""; p.Maintenance.Export.Field = "" })))
	equal(t, "an alarm without an export", without.consumer.Alarms[consumer.AlarmExportDifferences], nil)
	equal(t, "without it", len(synthesise(t, plain(t)).of("AWS::Events::Rule")), 0)
}

func TestMaintenanceOfPostgreSQL(t *testing.T) {
	tpl := synthesise(t, plain(t, onPostgres(),
		withMaintenance(t, func(p *props) {
			p.Maintenance.ReconcileEvery = 6 * time.Hour
			p.Maintenance.PruneEvery = 90 * time.Minute
			p.Idempotency.KeyScope = "namespace"
		})))
	fn := tpl.of(function)[tpl.id(t, "ConsumerMaintenance")]
	env := at(t, fn, "Environment", "Variables").(values)
	for name, want := range map[string]any{
		"IDEMSK_STORE": "postgres", "IDEMSK_STORE_URL": "postgres://db.example.com:5432/payments",
		"IDEMSK_STORE_SECRET_ARN": storeSecret, "IDEMSK_TABLE": "idemsk",
		"IDEMSK_EXPORT_TOPIC": nil,
	} {
		equal(t, name, env[name], want)
	}
	equal(t, "network", fn["VpcConfig"], tpl.of(function)[tpl.id(t, "ConsumerFunction")]["VpcConfig"])
	arn := tpl.getAtt(t, "ConsumerMaintenance", "Arn")
	equal(t, "schedules", schedules(t, tpl),
		map[string][]any{`{"task":"reconcile"}`: {"rate(6 hours)", arn},
			`{"task":"prune"}`: {"rate(90 minutes)", arn}})
	services := make(map[string]bool)
	for _, endpoint := range tpl.of("AWS::EC2::VPCEndpoint") {
		services[text(endpoint["ServiceName"])] = true
	}
	equal(t, "endpoints", len(services), 3) // SQS, Secrets Manager and S3
	permissions := strings.Join(mayDo(t, tpl, "ConsumerMaintenanceRoleDefaultPolicy"), " ")
	for _, want := range []string{"secretsmanager:GetSecretValue " + storeSecret, "kms:Decrypt " + kmsKey,
		"ec2:CreateNetworkInterface *"} {
		equal(t, want, strings.Contains(permissions, want), true)
	}
	equal(t, "permissions for DynamoDB", strings.Contains(permissions, "dynamodb:"), false)
}
