package cli_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
)

func TestUsageErrors(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("IDEMSK_KAFKA_PASSWORD", "")
	for args, says := range map[string]string{
		"frobnicate":                 "there is no verb frobnicate (see",
		"redrvie":                    "there is no verb redrvie: is redrive meant? (see",
		"help frobnicate":            "there is no verb frobnicate (see",
		"help redrvie":               "there is no verb redrvie: is redrive meant? (see",
		"help get list":              "there is no verb get list (see",
		"get":                        "want one KEY, got 0",
		"get a b":                    "want one KEY, got 2",
		"get k -- --json":            "want one KEY, got 2",
		"get --tabel x k":            "there is no flag --tabel: is --table meant?",
		"get --frobnicate k":         "there is no flag --frobnicate (see",
		"get k --json=maybe":         `--json is "maybe": want --json`,
		"local --duplicate 50%":      `--duplicate is "50%": want --duplicate CHANCE: the CHANCE that a completed batch`,
		"local --slow 5":             `--slow is "5": want --slow TIME`,
		"get k --region":             "-region",
		"get k":                      "no AWS region is set: give --region, or set AWS_REGION; for idemsk local, give the --endpoint-url",
		"get k --endpoint-url x":     `--endpoint-url is "x"`,
		"get k --region r --table a": "Table",
		"list x":                     `"x"`,
		"list --status DONE":         `"DONE"`,
		"list --before soon":         "want a time like",
		"list --limit -1":            "--limit is -1",
		"reconcile x":                `"x"`,
		"reconcile --from soon":      "want a time like",
		"console x":                  `"x"`,
		"console --queue-url q --dead-letter-topic t":      "exclude each other",
		"console --dead-letter-topic t":                    "--dead-letter-topic needs --brokers",
		"console --store-url redis://u@h --outbox-table o": "Redis has no outbox",
		"redrive": "want one of --queue-url, --dead-letter-topic, --bucket and --file",
		"redrive --file f --queue-url q --brokers b":                   "want one of",
		"redrive --queue-url q --dead-letter-topic t --brokers b":      "want one of",
		"redrive --dead-letter-topic t --function-name f":              "--dead-letter-topic needs --brokers",
		"redrive --bucket s3://gave-up":                                "--brokers or --function-name",
		"redrive --file f --brokers b":                                 "give --yes",
		"redrive --file f --brokers b --yes x":                         `"x"`,
		"redrive --file f --function-name f --tls --yes":               "need --brokers",
		"redrive --file f --brokers b --yes --auth kerberos":           `"kerberos"`,
		"redrive --file f --function-name f --auth none --tls=x --yes": `invalid boolean value "x"`,
		"redrive --file f --brokers b --yes --auth scram-sha-512": "--secret-arn is \"\": want the ARN of a secret with username and password, " +
			"or set IDEMSK_KAFKA_USERNAME and IDEMSK_KAFKA_PASSWORD",
		"redrive --file f --brokers b:9092 --yes --auth plain --tls=false": "unencrypted",
		"redrive --file f --brokers b --yes --auth mtls --tls-cert c":      "--tls-key is missing",
		"redrive --file f --function-name f --secret-arn a --yes":          "need --brokers",
		"redrive --queue-url q --brokers b --yes --visibility-timeout 1s":  "--visibility-timeout is 1s",
		"local --sqs q --topic t":                                          "--topic and --sqs exclude each other",
		"local --sqs q --events .":                                         "--events and --sqs exclude each other",
		"local --visibility-timeout 1s":                                    "--visibility-timeout needs --sqs",
		"local --events . --topic t --function f":                          "--topic and --events exclude each other",
		"local --events . --from-localstack":                               "--events and --from-localstack exclude each other",
		"topic":                                                            "want create TOPIC",
		"topic delete payments --brokers b":                                "want create TOPIC",
		"topic create payments":                                            "--brokers is missing",
		"topic create bad/topic --brokers b":                               `the topic is "bad/topic"`,
		"topic create payments --brokers b --partitions 0":                 "--partitions is 0",
		"topic create payments --brokers b --replication-factor 0":         "--replication-factor is 0",
		"topic create payments --brokers b --config x":                     "want NAME=VALUE",
		"produce":                                   "--brokers is missing",
		"produce a b --brokers b":                   "want one FILE, got 2",
		"produce --brokers b --format avro":         `--format is "avro"`,
		"produce --brokers b --format json --key k": "--key and --header are for --format value",
		"produce --brokers b --header =x":           "want NAME=VALUE",
		"relay":                                     "--brokers is missing",
		"relay x --brokers b":                       `"x"`,
		"relay --brokers b --auth kerberos":         `"kerberos"`,
		"relay --brokers b --store-url mysql://x":   "postgres://",
		"relay --brokers b --store-url postgres://u@h/d --table a.b.c":               `"a.b.c"`,
		"relay --brokers 127.0.0.1:1 --store-url postgres://u@h/d --max-attempts -1": "--max-attempts is -1",
		"outbox x":                                   "give --requeue",
		"outbox --limit -1":                          "--limit is -1",
		"outbox --all":                               "--all is for --requeue",
		"outbox --yes":                               "--yes is for --requeue",
		"outbox --requeue":                           "needs one of: IDs",
		"outbox --requeue x --all":                   "needs one of: IDs",
		"outbox --requeue --all":                     "give --yes",
		"outbox --requeue x --limit 1":               "--limit and --requeue exclude each other",
		"outbox --requeue x --json":                  "--json and --requeue exclude each other",
		"outbox --requeue --from 36h --to 24h --yes": "--from is for DynamoDB",
		"outbox --region r":                          "--region is for DynamoDB",
		"outbox --outbox-table t --table t":          "--table is for PostgreSQL",
		"outbox --outbox-table t --store-url postgres://u@h/d":              "--store-url is for PostgreSQL",
		"outbox --outbox-table t --from 36h":                                "--from is for --requeue",
		"outbox --outbox-table t --requeue --from 36h --yes":                "--from and --to need each other",
		"outbox --outbox-table t --requeue --from 24h --to 36h --yes":       "--from is not before --to",
		"outbox --outbox-table t --requeue --from 36h --to 24h --all --yes": "needs one of: IDs",
		"outbox --outbox-table t --requeue --from soon":                     "want a time like",
		"outbox --outbox-table table":                                       "no AWS region is set",
		"outbox --outbox-table=":                                            "--outbox-table is empty",
		"outbox --outbox-table a":                                           "Table",
		"outbox":                                                            "the database is missing",
		"outbox --store-url postgres://u@h/d --table a.b.c":                 `"a.b.c"`,
	} {
		r := clitest.Run(t, strings.Fields(args)...)
		if r.Code != 2 || r.Out != "" || strings.Count(r.Err, "\n") != 1 || !strings.Contains(r.Err, says) {
			t.Errorf("idemsk %s: exit %d, %q; want 2 and one line that says %q", args, r.Code, r.Err, says)
		}
	}
	if r := clitest.Run(t); r.Code != 2 || !strings.Contains(r.Err, "usage: idemsk VERB") {
		t.Errorf("no arguments: %+v", r)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	clitest.Golden(t, "help", clitest.Run(t, "help").Out)
	for _, verb := range []string{"local", "console", "get", "delete", "resolve", "list", "reconcile", "redrive", "topic",
		"produce", "migrate", "prune", "relay", "outbox", "completion"} {
		page := clitest.Run(t, "help", verb)
		if page.Code != 0 {
			t.Errorf("help %s: %+v", verb, page)
		}
		clitest.Golden(t, "help-"+verb, page.Out)
		for _, h := range []string{"-h", "--help"} {
			if same := clitest.Run(t, verb, h); same != page {
				t.Errorf("%s %s differs from help %s: %+v", verb, h, verb, same)
			}
		}
	}
	if r := clitest.Run(t, "--version"); r.Code != 0 || r.Out != "idemsk v1.2.3\n" {
		t.Errorf("--version: %+v", r)
	}
}

// A user of an archive has no documents: help names pages of the guide by their titles, and says where it is.
func TestHelpNamesPagesOfTheGuide(t *testing.T) {
	t.Parallel()
	index, err := os.ReadFile("../../../../docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	const guide = "\nThe guide: https://github.com/idemsk/idemsk/tree/v1.2.3/docs\n"
	named := 0
	for _, verb := range strings.Fields(regexp.MustCompile(`verbs="help version ([^"]*)"`).FindStringSubmatch(
		clitest.Run(t, "completion", "bash").Out)[1]) {
		text := clitest.Run(t, "help", verb).Out
		if strings.Contains(text, ".md") || !strings.HasSuffix(text, guide) {
			t.Errorf("help %s names a file, or does not end with %q:\n%s", verb, guide, text)
		}
		for _, m := range regexp.MustCompile(`page\s+"([^"]+)"`).FindAllStringSubmatch(text, -1) {
			named++
			if title := strings.Join(strings.Fields(m[1]), " "); !bytes.Contains(index, []byte("- ["+title+"](")) {
				t.Errorf("help %s: the guide has no page %q", verb, title)
			}
		}
	}
	if named == 0 || !strings.HasSuffix(clitest.Run(t, "help").Out, guide) {
		t.Errorf("%d pages are named; want the guide in the overview", named)
	}
}

func TestHostileArgumentsAreEscaped(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"\x1b[2J"}, {"list", "\x1b[2J"}, {"help", "\x1b[2J"}, {"get", "--\x1b[2J"},
		{"local", "--function", "f", "--events", "/nowhere/\x1b[2J"},
	} {
		r := clitest.Run(t, args...)
		if r.Code == 0 || strings.Contains(r.Err, "\x1b") || !strings.Contains(r.Err, `\x1b`) {
			t.Errorf("idemsk %q: %+v", args, r)
		}
	}
}
