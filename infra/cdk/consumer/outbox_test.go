package consumer_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

const brokers = "b-1.payments.example.com:9098,b-2.payments.example.com:9098"

// withOutbox adds an outbox, in a private VPC.
func withOutbox(t *testing.T, more ...change) change {
	t.Helper()
	program := code(t)
	added := func(p *props) {
		p.Outbox = &consumer.Outbox{RelayCode: program, Brokers: strings.Split(brokers, ","), Topics: []string{"credited"}}
		p.subnets = 1
	}
	return all(added, all(more...))
}

// scram makes it a cluster with passwords, which no topics are named for.
func scram() change {
	return func(p *props) {
		p.Cluster.Auth = "scram-sha-512"
		p.Cluster.SecretARN = secret
		p.Cluster.SecretKeyARN = kmsKey
		p.Outbox.Topics = nil
	}
}

func TestOutbox(t *testing.T) {
	tpl := synthesise(t, plain(t, withOutbox(t)))
	id := tpl.id(t, "ConsumerOutbox")
	table := tpl.of(globalTable)[id]
	equal(t, "the key schema", table["KeySchema"], []values{
		{"AttributeName": "aggregate", "KeyType": "HASH"}, {"AttributeName": "id", "KeyType": "RANGE"},
	})
	equal(t, "the attributes", table["AttributeDefinitions"], []values{
		{"AttributeName": "aggregate", "AttributeType": "S"}, {"AttributeName": "id", "AttributeType": "S"},
	})
	equal(t, "TTL", table["TimeToLiveSpecification"],
		values{"AttributeName": "expiryTimestamp", "Enabled": true})
	equal(t, "the stream", table["StreamSpecification"], values{"StreamViewType": "NEW_IMAGE"})
	equal(t, "billing", table["BillingMode"], "PAY_PER_REQUEST")
	equal(t, "replicas", table["Replicas"], []values{{
		"Region":                           values{"Ref": "AWS::Region"},
		"DeletionProtectionEnabled":        true,
		"PointInTimeRecoverySpecification": values{"PointInTimeRecoveryEnabled": true},
		"ContributorInsightsSpecification": values{"Enabled": false},
	}})
	equal(t, "removal", at(t, tpl["Resources"], id, "DeletionPolicy"), "Retain")

	source := tpl.id(t, "ConsumerRelayEventSource")
	equal(t, "the event source", tpl.of(eventSource)[source], values{
		"FunctionName":               tpl.getAtt(t, "ConsumerRelay", "Arn"),
		"EventSourceArn":             tpl.getAtt(t, "ConsumerOutbox", "StreamArn"),
		"StartingPosition":           "TRIM_HORIZON",
		"BatchSize":                  100,
		"ParallelizationFactor":      1,
		"FunctionResponseTypes":      []string{"ReportBatchItemFailures"},
		"BisectBatchOnFunctionError": true,
		"MaximumRetryAttempts":       -1,
		"MaximumRecordAgeInSeconds":  -1,
		"FilterCriteria": values{"Filters": []values{
			{"Pattern": `{"eventName":["INSERT"]}`},
			{"Pattern": `{"eventName":["MODIFY"],"dynamodb":{"NewImage":{"requeuedAt":{"N":[{"exists":true}]}}}}`},
		}},
	})
	equal(t, "it waits for", at(t, tpl["Resources"], source, "DependsOn"),
		[]string{tpl.id(t, "ConsumerRelayRoleDefaultPolicy")})

	function := tpl.of(function)[tpl.id(t, "ConsumerFunction")]
	for name, want := range map[string]any{
		"IDEMSK_OUTBOX_TABLE": values{"Ref": id},
	} {
		equal(t, "the function's "+name, at(t, function, "Environment", "Variables", name), want)
	}
	outputs := tpl["Outputs"].(values)
	equal(t, "the output of the table", at(t, outputs, "OutboxTableName", "Value"), values{"Ref": id})
	equal(t, "the output of the relay", at(t, outputs, "RelayFunctionName", "Value"),
		tpl.ref(t, "ConsumerRelay"))
}

func TestRelay(t *testing.T) {
	tpl := synthesise(t, plain(t, withOutbox(t)))
	relay := tpl.of(function)[tpl.id(t, "ConsumerRelay")]
	equal(t, "runtime", relay["Runtime"], "provided.al2023")
	equal(t, "architecture", relay["Architectures"], []string{"arm64"})
	equal(t, "timeout", relay["Timeout"], 120)
	equal(t, "memory", relay["MemorySize"], 512)
	equal(t, "log", relay["LoggingConfig"],
		values{"ApplicationLogLevel": "INFO", "LogFormat": "JSON",
			"LogGroup": tpl.ref(t, "ConsumerRelayLogs")})
	equal(t, "log retention", tpl.of("AWS::Logs::LogGroup")[tpl.id(t,
		"ConsumerRelayLogs")]["RetentionInDays"], 30)
	equal(t, "subnets", at(t, relay, "VpcConfig", "SubnetIds"), []string{"subnet-0123456789abcdef0"})
	equal(t, "security groups", at(t, relay, "VpcConfig", "SecurityGroupIds"),
		[]string{"sg-0123456789abcdef0"})
	equal(t, "its variables", at(t, relay, "Environment", "Variables"), values{
		"IDEMSK_OUTBOX_TABLE": tpl.ref(t, "ConsumerOutbox"), "IDEMSK_KAFKA_BROKERS": brokers,
		"IDEMSK_KAFKA_AUTH": "iam", "IDEMSK_KAFKA_TLS": "true",
		"IDEMSK_KAFKA_TIMEOUT": "10s", "IDEMSK_LOG_LEVEL": "INFO",
	})
}

func TestRelayProperties(t *testing.T) {
	own := "arn:aws:secretsmanager:eu-central-1:111122223333:secret:relay-AbCdEf"
	self := func(p *props) {
		p.Cluster.ARN = ""
		p.Cluster.BootstrapServers = []string{"b-1.example.com:9096", "b-2.example.com:9096"}
		p.Cluster.SecretARN = secret
		p.Outbox.Brokers = nil
		p.Outbox.Topics = nil
	}
	for name, c := range map[string]struct {
		given change
		want  values
	}{
		"as the event source does": {scram(),
			values{"IDEMSK_KAFKA_AUTH": "scram-sha-512", "IDEMSK_KAFKA_SECRET_ARN": secret,
				"IDEMSK_KAFKA_BROKERS": brokers}},
		"otherwise": {func(p *props) {
			p.Outbox.Auth = "mtls"
			p.Outbox.SecretARN = own
			p.Outbox.Topics = nil
			p.Outbox.KafkaTimeout = 20 * time.Second
			p.Function.LogLevel = "WARN"
		},
			values{"IDEMSK_KAFKA_AUTH": "mtls", "IDEMSK_KAFKA_SECRET_ARN": own, "IDEMSK_KAFKA_TLS": "true",
				"IDEMSK_KAFKA_TIMEOUT": "20s",
				"IDEMSK_LOG_LEVEL":     "WARN"}},
		"self-managed": {self, values{"IDEMSK_KAFKA_AUTH": "scram-sha-512",
			"IDEMSK_KAFKA_BROKERS": "b-1.example.com:9096,b-2.example.com:9096", "IDEMSK_KAFKA_TLS_CA": nil}},
		"another password": {func(p *props) {
			p.Cluster.ARN = ""
			p.Cluster.BootstrapServers = []string{"b:9096"}
			p.Cluster.SecretARN = secret
			p.Outbox.Brokers = []string{"b:9095"}
			p.Outbox.Topics = nil
			p.Outbox.Auth = "scram-sha-256"
			p.Outbox.SecretARN = own
			p.Outbox.CA = "/var/task/ca.pem"
		},
			values{"IDEMSK_KAFKA_AUTH": "scram-sha-256", "IDEMSK_KAFKA_SECRET_ARN": own,
				"IDEMSK_KAFKA_BROKERS": "b:9095", "IDEMSK_KAFKA_TLS_CA": "/var/task/ca.pem"}},
		"without authentication": {func(p *props) { p.Outbox.Auth = "none"; p.Outbox.Topics = nil },
			values{"IDEMSK_KAFKA_AUTH": "none", "IDEMSK_KAFKA_TLS": "false"}},
		"without authentication, over TLS": {func(p *props) {
			p.Outbox.Auth = "none"
			p.Outbox.TLS = true
			p.Outbox.Topics = nil
		}, values{"IDEMSK_KAFKA_AUTH": "none", "IDEMSK_KAFKA_TLS": "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			tpl := synthesise(t, plain(t, withOutbox(t, c.given)))
			got := at(t, tpl.of(function)[tpl.id(t, "ConsumerRelay")], "Environment", "Variables").(values)
			for variable, want := range c.want {
				equal(t, variable, got[variable], want)
			}
		})
	}
}

// The complete permissions of the relay and its event source, and the additional ones of the function.
func TestPermissionsOfTheRelay(t *testing.T) {
	const uuid = "6cc0432b-8618-4f44-bccc-e1fbd8fb7c4d-2"
	topic := "arn:aws:kafka:eu-central-1:111122223333:topic/payments/" + uuid + "/credited"
	network := []string{
		"ec2:AssignPrivateIpAddresses *", "ec2:CreateNetworkInterface *", "ec2:DeleteNetworkInterface *",
		"ec2:DescribeNetworkInterfaces *",
		"ec2:DescribeSecurityGroups *", "ec2:DescribeSubnets *", "ec2:DescribeVpcs *",
		"ec2:UnassignPrivateIpAddresses *",
	}
	always := []string{
		"dynamodb:BatchGetItem ConsumerOutbox.Arn", "dynamodb:DescribeStream ConsumerOutbox.StreamArn",
		"dynamodb:GetRecords ConsumerOutbox.StreamArn",
		"dynamodb:GetShardIterator ConsumerOutbox.StreamArn",
		"dynamodb:ListStreams ConsumerOutbox.Arn/stream/*", "dynamodb:UpdateItem ConsumerOutbox.Arn",
		"logs:CreateLogStream ConsumerRelayLogs.Arn", "logs:PutLogEvents ConsumerRelayLogs.Arn",
	}
	for name, c := range map[string]struct {
		given change
		want  []string
	}{
		"IAM": {nil, []string{
			"kafka-cluster:Connect " + cluster, "kafka-cluster:DescribeTopic " + topic,
			"kafka-cluster:DescribeTopicDynamicConfiguration " + topic,
			"kafka-cluster:WriteData " + topic, "kafka-cluster:WriteDataIdempotently " + cluster,
		}},
		"SCRAM": {scram(), []string{"kms:Decrypt " + kmsKey, "secretsmanager:GetSecretValue " + secret}},
	} {
		t.Run(name, func(t *testing.T) {
			tpl := synthesise(t, plain(t, withOutbox(t, c.given)))
			equal(t, "the relay's permissions", mayDo(t, tpl, "ConsumerRelayRoleDefaultPolicy"),
				sorted(always, network, c.want))
			without := withOutbox(t, c.given, func(p *props) { p.Outbox = nil })
			equal(t, "the function's permissions", mayDo(t, tpl, "ConsumerRoleDefaultPolicy"),
				sorted(mayDo(t, synthesise(t, plain(t, without)), "ConsumerRoleDefaultPolicy"),
					[]string{"dynamodb:PutItem ConsumerOutbox.Arn"}))
		})
	}
}

func sorted(lists ...[]string) []string { return slices.Sorted(slices.Values(slices.Concat(lists...))) }

// mayDo returns what a policy allows: an action and a resource each.
func mayDo(t *testing.T, tpl template, policy string) []string {
	t.Helper()
	may := make(map[string]bool)
	for _, s := range at(t, tpl.of("AWS::IAM::Policy")[tpl.id(t, policy)], "PolicyDocument",
		"Statement").([]any) {
		for _, r := range listed(at(t, s, "Resource")) {
			for _, a := range listed(at(t, s, "Action")) {
				may[a.(string)+" "+arnOf(r)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(may))
}

func TestEndpointsOfTheRelay(t *testing.T) {
	for name, c := range map[string]struct {
		given change
		want  []string
	}{
		"IAM": {func(p *props) { p.VPCEndpoints = true }, []string{"dynamodb", "sqs"}},
		"SCRAM": {func(p *props) {
			p.VPCEndpoints = true
			p.Cluster.Auth = "scram-sha-512"
			p.Cluster.SecretARN = secret
			p.Outbox.Topics = nil
			p.Function.Tracing = true
		}, []string{"dynamodb", "secretsmanager", "sqs", "xray"}},
	} {
		t.Run(name, func(t *testing.T) {
			st := build(t, plain(t, withOutbox(t, c.given)))
			equal(t, "endpoints", slices.Sorted(maps.Keys(st.consumer.Endpoints)), c.want)
		})
	}
}

// An app of one's own may have the relay alone in a VPC.
func TestRelayInItsOwnVPC(t *testing.T) {
	st := newTeamStack(t, "")
	props := teamProps(t)
	props.Outbox = &consumer.Outbox{
		RelayCode: code(t), Brokers: []string{"b-1.example.com:9098"}, Topics: []string{"credited"},
		Network: consumer.Network{VPC: awsec2.Vpc_FromVpcAttributes(st, jsii.String("Vpc"), &awsec2.VpcAttributes{
			VpcId: jsii.String("vpc-0123456789abcdef0"), AvailabilityZones: jsii.Strings("eu-central-1a"),
			PrivateSubnetIds: jsii.Strings("subnet-0123456789abcdef0"),
		})},
	}
	consumer.New(st, "Ledger", props)
	tpl := templateOf(t, st)
	functions := tpl.of(function)
	equal(t, "the function's VPC", functions[tpl.id(t, "LedgerFunction")]["VpcConfig"], nil)
	equal(t, "the relay's subnets", at(t, functions[tpl.id(t, "LedgerRelay")], "VpcConfig", "SubnetIds"),
		[]string{"subnet-0123456789abcdef0"})
	equal(t, "the relay's security groups", len(tpl.of("AWS::EC2::SecurityGroup")), 1)
}

// The construct has some names and numbers of the outbox's packages twice, as it does not import them.
func TestConstructMatchesTheOutbox(t *testing.T) {
	got := make(map[string]string)
	for _, file := range []string{"outbox/dynamooutbox/item.go",
		"outbox/relay/relay.go", "lambda/relay/config.go", "internal/kafkaauth/config.go"} {
		maps.Copy(got, constants(t, filepath.Join("..", "..", "..", filepath.FromSlash(file))))
	}
	for name, want := range map[string]string{
		"AttrAggregate": `"aggregate"`, "AttrID": `"id"`, "AttrExpiry": `"expiryTimestamp"`,
		"AttrRequeuedAt": `"requeuedAt"`,
		"DefaultTimeout": "10 * time.Second",
		"None":           quoted(consumer.AuthNone), "IAM": quoted(consumer.AuthIAM),
		"SCRAM512": quoted(consumer.AuthSCRAM512),
		"SCRAM256": quoted(consumer.AuthSCRAM256), "Plain": quoted(consumer.AuthPlain),
		"MTLS": quoted(consumer.AuthMTLS),
	} {
		equal(t, name, got[name], want)
	}
}

func quoted(a consumer.Auth) string { return strconv.Quote(string(a)) }

// constants returns a file's, as they are written.
func constants(t *testing.T, file string) map[string]string {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tree := parsed(t, file)
	found := make(map[string]string)
	ast.Inspect(tree, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == len(spec.Names) {
			for i, name := range spec.Names {
				found[name.Name] = string(source[spec.Values[i].Pos()-1 : spec.Values[i].End()-1])
			}
		}
		return true
	})
	return found
}

func parsed(t *testing.T, file string) *ast.File {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
