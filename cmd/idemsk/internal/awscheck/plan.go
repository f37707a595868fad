package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/payments"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// plan is what a run creates, how long it takes, and what it costs.
type plan struct {
	onDemand, local bool
	region          string
	payments        payments.Config
}

// Bounds of a run. Deleting the network interfaces of a function in a VPC takes up to 20 minutes:
// https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
const (
	usualTime   = "30 to 60 minutes"
	drainTime   = time.Hour
	longestTime = 3 * time.Hour
)

// The prices are those of us-east-1 on AWS's price pages of MSK, Lambda, DynamoDB, PrivateLink and
// CloudWatch, as they were known in November 2026.
const (
	pricesOf   = "us-east-1, November 2026"
	otherPlace = 1.6 // no region is known to cost more than this times as much
)

// cost is a part of the price in dollars: by the hour, or once.
type cost struct {
	what         string
	hourly, once float64
}

func (p *plan) costs() []cost {
	const (
		cluster, partition, traffic = 0.75, 0.0015, 0.15 // traffic: a GB written and read
		pollerUnit, units           = 0.185, 2
		endpoint, zones, endpoints  = 0.01, 2, 2
		writes, reads               = 0.625e-6, 0.125e-6 // a request unit
		gbSecond                    = 16.7e-6
	)
	n := float64(p.payments.Records)
	all := []cost{
		{"MSK Serverless: a cluster and its partitions", cluster + partitions*partition, 0},
		{"MSK Serverless: data", 0, n * 1e-6 * traffic},
		// a claim, a completion with two further writes in a transaction, and as much for repeated attempts
		{"DynamoDB: writes, and a scan of the keys every 15 s", n * 0.25 * reads * 240, n * 16 * writes},
		{"Lambda", 0, 5000 * gbSecond},
		{"CloudWatch: logs, metrics, alarms", 0.1, 0.1},
	}
	if p.onDemand {
		return append(all, cost{"VPC endpoints: Lambda and STS in two zones", endpoint * zones * endpoints, 0})
	}
	return append(all, cost{"Lambda: two units of event pollers", pollerUnit * units, 0})
}

// most returns the upper bound of the price.
func (p *plan) most() float64 {
	sum := 0.0
	for _, c := range p.costs() {
		sum += c.hourly*longestTime.Hours() + c.once
	}
	return sum * otherPlace
}

// text describes the plan.
func (p *plan) text() string {
	if p.local {
		return fmt.Sprintf("aws-check on LocalStack: deploys the example's consumer without cluster and VPC, delivers %s "+
			"to it, and destroys it. It costs nothing and takes some minutes.\n",
			term.Plural(p.payments.Records, "record", "records"))
	}
	pollers := "an event source mapping with provisioned pollers"
	if p.onDemand {
		pollers = "an event source mapping with pollers on demand, and the endpoints of Lambda and STS"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `aws-check creates in your AWS account, in %s, two stacks of CloudFormation:
  - a VPC of two private subnets without NAT, an MSK Serverless cluster with IAM, a topic of %d partitions,
    and a function in the VPC that sends %s;
  - the example function with its tables, dead-letter queue, alarms, dashboard and log, and
    %s.
It kills about %d invocations by time-outs, compares the ledger with the payments, prints a report, and
destroys both stacks, also after a failure or Ctrl-C. The account must be bootstrapped for the CDK
(scripts/cdk.sh bootstrap); the two uploaded programs stay in its staging bucket, for less than a cent a month.

It takes %s. Prices by the hour and once (%s):
`, p.region, partitions, term.Plural(p.payments.Records, "record", "records"), pollers,
		p.payments.Records*freezesPerMille/1000, usualTime, pricesOf)
	for _, c := range p.costs() {
		fmt.Fprintf(&b, "  $%.3f  $%.3f  %s\n", c.hourly, c.once, c.what)
	}
	fmt.Fprintf(&b, "At most $%.2f in all: %s, and prices of other regions up to %.1f times as high.\n\n",
		p.most(), longestTime, otherPlace)
	return b.String()
}
