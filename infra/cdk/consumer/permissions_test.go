package consumer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// anyResource are the actions for which AWS knows no ARN, or whose ARN can't be known, and why.
func anyResource() map[string]string {
	const (
		describe  = "EC2 describes nothing by ARN"
		networks  = "Lambda tests at the function's creation that its role may use any network interface"
		telemetry = "X-Ray has no resources"
	)
	return map[string]string{
		"ec2:DescribeNetworkInterfaces": describe, "ec2:DescribeSecurityGroups": describe,
		"ec2:DescribeSubnets": describe, "ec2:DescribeVpcs": describe,
		"ec2:CreateNetworkInterface": networks, "ec2:DeleteNetworkInterface": networks,
		"ec2:AssignPrivateIpAddresses": networks, "ec2:UnassignPrivateIpAddresses": networks,
		"xray:PutTelemetryRecords": telemetry, "xray:PutTraceSegments": telemetry,
	}
}

// withinARN are the wildcards at an ARN's end that are allowed, and why.
func withinARN() map[string]string {
	return map[string]string{
		"glue:GetSchemaVersion": "all schemas of one registry: which one, the record says",
		"s3:PutObject":          "objects of one bucket",
		"s3:GetObject":          "the exports in one bucket",
		"dynamodb:ListStreams":  "the streams of one table",
	}
}

// statement is a part of a policy of a role.
type statement struct {
	actions, resources []any
	effect             string
}

// statements returns what the roles of a stack may do.
func statements(t *testing.T, tpl template) []statement {
	t.Helper()
	var all []statement
	for _, policy := range tpl.of("AWS::IAM::Policy") {
		for _, s := range at(t, policy, "PolicyDocument", "Statement").([]any) {
			all = append(all, statement{listed(at(t, s, "Action")), listed(at(t, s, "Resource")),
				at(t, s, "Effect").(string)})
		}
	}
	for id, role := range tpl.of("AWS::IAM::Role") {
		equal(t, id+": inline policies", role["Policies"], nil)
		if strings.HasPrefix(id, "ConsumerRole") || strings.HasPrefix(id, "ConsumerRelayRole") ||
			strings.HasPrefix(id, "ConsumerMaintenanceRole") {
			equal(t, id+": managed policies", role["ManagedPolicyArns"], nil)
		}
	}
	return all
}

func listed(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	return []any{v}
}

func TestPermissionsAreMinimal(t *testing.T) {
	vpc := func(p *props) { p.subnets = 1 }
	for name, more := range map[string]change{
		"plain": nil, "everything": everything(),
		"a bucket":            func(p *props) { p.Source.OnFailure.BucketARN = "arn:aws:s3:::given-up"; finitely(p) },
		"a topic":             func(p *props) { p.Source.OnFailure.Topic = "given-up"; finitely(p) },
		"a function in a VPC": vpc,
		"tracing":             func(p *props) { p.Function.Tracing = true }, "keys in PostgreSQL": onPostgres(),
		"self-managed": func(p *props) {
			p.Cluster.ARN = ""
			p.Cluster.BootstrapServers = []string{"b-1.example.com:9096"}
			p.Cluster.SecretARN = secret
		},
		"maintenance": withMaintenance(t), "maintenance, and everything": withMaintenance(t, everything()),
		"an outbox": withOutbox(t), "an outbox, and everything": withOutbox(t, everything(), scram()),
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range statements(t, synthesise(t, plain(t, more))) {
				equal(t, "effect", s.effect, "Allow")
				s.check(t)
			}
		})
	}
}

func (s statement) check(t *testing.T) {
	t.Helper()
	for _, a := range s.actions {
		action := a.(string)
		if strings.Contains(action, "*") {
			t.Errorf("action %s has a wildcard", action)
		}
		for _, r := range s.resources {
			arn := text(r)
			switch {
			case arn == "*":
				if anyResource()[action] == "" {
					t.Errorf("%s is allowed of any resource, and no reason is given", action)
				}
			case strings.Contains(arn, "*"):
				if withinARN()[action] == "" {
					t.Errorf("%s is allowed of %s, and no reason is given", action, arn)
				}
			}
		}
	}
}

// The complete permissions of the function and its pollers.
func TestPermissionsOfTheRole(t *testing.T) {
	const (
		topic = "arn:aws:kafka:eu-central-1:111122223333:topic/payments/6cc0432b-8618-4f44-bccc-e1fbd8fb7c4d-2/payments"
		group = "arn:aws:kafka:eu-central-1:111122223333:group/payments/6cc0432b-8618-4f44-bccc-e1fbd8fb7c4d-2/payments-ledger"
	)
	tpl := synthesise(t, plain(t))
	equal(t, "the permissions", mayDo(t, tpl, "ConsumerRoleDefaultPolicy"), []string{
		"dynamodb:BatchGetItem ConsumerTable.Arn",
		"dynamodb:PartiQLInsert ConsumerTable.Arn",
		"dynamodb:PartiQLUpdate ConsumerTable.Arn",
		"dynamodb:PutItem ConsumerTable.Arn",
		"dynamodb:UpdateItem ConsumerTable.Arn",
		"ec2:CreateNetworkInterface *",
		"ec2:DeleteNetworkInterface *",
		"ec2:DescribeNetworkInterfaces *",
		"ec2:DescribeSecurityGroups *",
		"ec2:DescribeSubnets *",
		"ec2:DescribeVpcs *",
		"kafka-cluster:AlterGroup " + group,
		"kafka-cluster:Connect " + cluster,
		"kafka-cluster:DescribeClusterDynamicConfiguration " + cluster,
		"kafka-cluster:DescribeGroup " + group,
		"kafka-cluster:DescribeTopic " + topic,
		"kafka-cluster:ReadData " + topic,
		"kafka:DescribeClusterV2 " + cluster,
		"kafka:GetBootstrapBrokers " + cluster,
		"logs:CreateLogStream ConsumerLogs.Arn",
		"logs:PutLogEvents ConsumerLogs.Arn",
		"sqs:SendMessage ConsumerDeadLetters.Arn",
	})
}

// arnOf writes a resource of a statement: its ARN, or what it is an attribute of.
func arnOf(resource any) string {
	if m, ok := resource.(values); ok {
		if get, ok := m["Fn::GetAtt"].([]any); ok {
			return hash.ReplaceAllString(get[0].(string), "") + "." + get[1].(string)
		}
		if join, ok := m["Fn::Join"].([]any); ok && join[0] == "" && !strings.Contains(text(join), "arn:") {
			var arn strings.Builder
			for _, part := range join[1].([]any) {
				arn.WriteString(arnOf(part))
			}
			return arn.String()
		}
	}
	return text(resource)
}

// What roles may do with a customer key: to read with it, and for the rest only what the services ask for on
// their behalf.
func TestPermissionsForACustomerKey(t *testing.T) {
	onTables := []string{
		"kms:DescribeKey via dynamodb.*.amazonaws.com", "kms:Encrypt via dynamodb.*.amazonaws.com",
		"kms:GenerateDataKey via dynamodb.*.amazonaws.com",
		"kms:GenerateDataKeyWithoutPlaintext via dynamodb.*.amazonaws.com",
		"kms:ReEncryptFrom via dynamodb.*.amazonaws.com", "kms:ReEncryptTo via dynamodb.*.amazonaws.com",
	}
	read, onQueues := []string{"kms:Decrypt"}, []string{"kms:GenerateDataKey via sqs.*.amazonaws.com"}
	for name, c := range map[string]struct {
		given           change
		function, relay []string
	}{
		"tables and queues": {withOutbox(t), sorted(read, onQueues, onTables), sorted(read, onTables)},
		"no table": {func(p *props) { p.Store.Type = "redis"; p.Store.SecretARN = storeSecret }, sorted(read, onQueues),
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			tpl := synthesise(t, plain(t, c.given, func(p *props) { p.keyed = true }))
			equal(t, "the function", withKey(t, tpl, "ConsumerRoleDefaultPolicy"), c.function)
			if c.relay != nil {
				equal(t, "the relay", withKey(t, tpl, "ConsumerRelayRoleDefaultPolicy"), c.relay)
			}
		})
	}
}

// withKey returns what a policy allows with the key, and of whom it must come.
func withKey(t *testing.T, tpl template, policy string) []string {
	t.Helper()
	var may []string
	for _, s := range at(t, tpl.of("AWS::IAM::Policy")[tpl.id(t, policy)], "PolicyDocument",
		"Statement").([]any) {
		if text(at(t, s, "Resource")) != kmsKey {
			continue
		}
		via := ""
		if condition, ok := s.(values)["Condition"]; ok {
			via = " via " + text(at(t, condition, "StringLike", "kms:ViaService"))
		}
		for _, action := range listed(at(t, s, "Action")) {
			may = append(may, text(action)+via)
		}
	}
	return sorted(may)
}

func TestBucketOfLargeDeadLetters(t *testing.T) {
	const arn = "arn:aws:s3:::large/ledger"
	equal(t, "the variable", variables(t,
		synthesise(t, plain(t, func(p *props) { p.DeadLetters.BucketARN = arn })))["IDEMSK_DEAD_LETTER_BUCKET"],
		"large/ledger")
}

func TestPermissionsOfOtherProperties(t *testing.T) {
	bucket := "arn:aws:s3:::given-up"
	for name, c := range map[string]struct {
		changes change
		want    []string // some of the permissions
		no      string   // no action has this prefix
	}{
		"SCRAM": {func(p *props) {
			p.Cluster.Auth = "scram-sha-512"
			p.Cluster.SecretARN = secret
			p.Cluster.SecretKeyARN = kmsKey
		},
			[]string{"secretsmanager:GetSecretValue " + secret, "kms:Decrypt " + kmsKey,
				"kafka:DescribeClusterV2 " + cluster, "kafka:ListScramSecrets " + cluster}, "kafka-cluster:"},
		"self-managed on the internet": {func(p *props) {
			p.Cluster.ARN = ""
			p.Cluster.BootstrapServers = []string{"b-1.example.com:9096"}
			p.Cluster.SecretARN = secret
		},
			[]string{"secretsmanager:GetSecretValue " + secret}, "ec2:"},
		"self-managed without MSK": {func(p *props) {
			p.Cluster.ARN = ""
			p.Cluster.BootstrapServers = []string{"b-1.example.com:9096"}
			p.Cluster.SecretARN = secret
		},
			nil, "kafka"},
		"large dead letters": {func(p *props) { p.DeadLetters.BucketARN = "arn:aws:s3:::large/ledger" },
			[]string{"s3:PutObject arn:aws:s3:::large/ledger/*"}, "s3:L"},
		"a bucket": {func(p *props) { p.Source.OnFailure.BucketARN = bucket; finitely(p) },
			[]string{"s3:PutObject " + bucket + "/*", "s3:ListBucket " + bucket}, "s3:G"},
		"a topic": {func(p *props) { p.Source.OnFailure.Topic = "given-up"; finitely(p) },
			[]string{"kafka-cluster:WriteData arn:aws:kafka:eu-central-1:111122223333:topic/payments/6cc0432b-8618-4f44-bccc-e1fbd8fb7c4d-2/given-up"}, "s3:"},
		"a queue": {func(p *props) { p.Source.OnFailure.Queue = true; finitely(p) },
			[]string{"sqs:SendMessage ConsumerOnFailure.Arn"}, "s3:"},
		"Glue": {func(p *props) {
			p.Source.SchemaRegistry = &consumer.SchemaRegistry{URI: "arn:aws:glue:eu-central-1:111122223333:registry/payments"}
		},
			[]string{
				"glue:GetRegistry arn:aws:glue:eu-central-1:111122223333:registry/payments",
				"glue:GetSchemaVersion arn:aws:glue:eu-central-1:111122223333:schema/payments/*",
			}, "xray:"},
	} {
		t.Run(name, func(t *testing.T) {
			got := mayDo(t, synthesise(t, plain(t, c.changes)), "ConsumerRoleDefaultPolicy")
			for _, may := range got {
				if strings.HasPrefix(may, c.no) {
					t.Errorf("%s is allowed", may)
				}
			}
			for _, want := range c.want {
				equal(t, want+" is allowed", slices.Contains(got, want), true)
			}
		})
	}
}
