package consumer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
)

func (c *checker) cluster() {
	k := &c.Cluster
	switch {
	case k.ARN == "" && !c.selfManaged():
		c.fail("Cluster.ARN", "",
			"an MSK cluster's ARN, or Cluster.BootstrapServers for a self-managed cluster")
	case k.ARN != "" && c.selfManaged():
		c.fail("Cluster.BootstrapServers", strings.Join(k.BootstrapServers, ","),
			"none together with Cluster.ARN: one consumer reads one cluster")
	case (len(k.SubnetIDs) == 0) != (len(k.SecurityGroupIDs) == 0) && c.selfManaged():
		c.fail("Cluster.SubnetIDs", strings.Join(k.SubnetIDs, ","),
			"both or neither of Cluster.SubnetIDs and Cluster.SecurityGroupIDs")
	case k.Auth == AuthNone && len(k.SubnetIDs) == 0 && c.selfManaged():
		c.fail("Cluster.Auth", k.Auth, "another one, or Cluster.SubnetIDs: brokers on the internet must authenticate")
	}
	c.auth("Cluster", k.Auth, k.SecretARN)
}

// auths returns the ways to authenticate with the cluster. The first one is the default.
func (p *Props) auths() []Auth {
	if p.selfManaged() {
		return []Auth{AuthSCRAM512, AuthSCRAM256, AuthPlain, AuthMTLS, AuthNone}
	}
	return []Auth{AuthIAM, AuthSCRAM512, AuthMTLS, AuthNone}
}

func (p *Props) selfManaged() bool { return len(p.Cluster.BootstrapServers) > 0 }

// auth checks the authentication in a group of properties, and its secret.
func (c *checker) auth(of string, auth Auth, arn string) {
	switch needs := accessType[auth] != ""; {
	case !slices.Contains(c.auths(), auth):
		words := strings.Trim(fmt.Sprint(c.auths()), "[]")
		c.fail(of+".Auth", auth, "one of %s", strings.ReplaceAll(words, " ", ", "))
	case !c.sound(of + ".SecretARN"):
	case needs && arn == "":
		c.fail(of+".SecretARN", "", "the ARN of the secret that %s.Auth %s needs", of, auth)
	case !needs && arn != "":
		c.fail(of+".SecretARN", arn, "none with %s.Auth %s, which uses no secret", of, auth)
	}
}

func (c *checker) topics() {
	s, name, group := &c.Source, forms["topic"], forms["group"]
	if len(s.Topics) == 0 {
		c.fail("Source.Topics", "", "at least one topic")
	}
	reader, seen := make(map[string]string), make(map[string]bool)
	for _, topic := range s.Topics {
		other := reader[topic.Group]
		switch {
		case name.check(topic.Name) != "":
			c.fail("Source.Topics", topic.Name, "%s", name.want)
		case seen[topic.Name]:
			c.fail("Source.Topics", topic.Name, "each topic once")
		case group.check(topic.Group) != "" && topic.Group != s.ConsumerGroup:
			c.fail("Source.Topics", topic.Name+"="+topic.Group, "a group of %s", group.want)
		case other != "":
			c.fail("Source.Topics", topic.Name,
				"a group of its own, as in %s=GROUP: AWS wants another for every event source, and %s has %s",
				topic.Name, other, topic.Group)
		}
		reader[topic.Group], seen[topic.Name] = topic.Name, true
	}
	i := &c.Idempotency
	if names := c.forgotten(); i.DeployedKeyScope != "" && len(names) > 0 {
		c.fail("Idempotency.KeyScope", c.pinnedScope(),
			"%q, the deployed one, or topics added to it: the records of %s would count as new and take effect again",
			i.DeployedKeyScope, strings.Join(names, ", "))
	}
	if i.DeployedNamespace != "" && i.DeployedNamespace != i.Namespace {
		c.fail("Idempotency.Namespace", i.Namespace,
			"%q, the deployed one: in another namespace every record counts as new and takes effect again",
			i.DeployedNamespace)
	}
}

func (c *checker) source() {
	s := &c.Source
	at := s.StartingPosition == awslambda.StartingPosition_AT_TIMESTAMP
	if at == s.StartingTimestamp.IsZero() {
		c.fail("Source.StartingTimestamp", s.StartingTimestamp.Format(time.RFC3339),
			"a time with Source.StartingPosition AT_TIMESTAMP, none with another")
	}
	if s.Pollers.Min > s.Pollers.Max && !s.Pollers.OnDemand && c.sound("Source.Pollers.Max") {
		c.fail("Source.Pollers.Min", s.Pollers.Min, "at most Source.Pollers.Max, %v", s.Pollers.Max)
	}
	if s.Pollers.OnDemand && s.Failures == FailPartial {
		c.fail("Source.Failures", s.Failures,
			"batch with Source.Pollers.OnDemand: AWS offers partial failures in provisioned mode only")
	}
}

func (c *checker) onFailure() {
	s, to := &c.Source, c.Source.OnFailure
	var given []string
	add := func(set bool, word string) {
		if set {
			given = append(given, word)
		}
	}
	add(to.Queue, "queue")
	add(to.BucketARN != "", to.BucketARN)
	add(to.Topic != "", "topic:"+to.Topic)
	switch destinations := strings.Join(given, ", "); {
	case !c.sound("Source.OnFailure.Queue", "Source.OnFailure.BucketARN", "Source.OnFailure.Topic"):
	case len(given) > 1:
		c.fail("Source.OnFailure", destinations, "one of them: an event source has one destination")
	case len(given) == 1 && s.Retries == nil:
		c.fail("Source.Retries", "infinite", "a number with Source.OnFailure (%s): "+
			"AWS turns endless retries into 10 where there is a destination", destinations)
	case len(given) == 0 && (s.Retries != nil || s.MaxRecordAge > 0) &&
		c.sound("Source.Retries", "Source.MaxRecordAge"):
		c.fail("Source.OnFailure", "none", "a queue, a bucket or a topic with Source.Retries or "+
			"Source.MaxRecordAge: what the event source gives up would be lost")
	}
	for _, topic := range s.Topics {
		if topic.Name == to.Topic && to.Topic != "" {
			c.fail("Source.OnFailure.Topic", to.Topic, "a topic that is not consumed: AWS refuses the loop")
		}
	}
}
