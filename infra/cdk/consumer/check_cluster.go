package consumer

import (
	"regexp"
	"strings"
)

// The forms of names and ARNs, as AWS and Kafka define them.
var (
	clusterARN = regexp.MustCompile(`^arn:aws[a-z-]*:kafka:[a-z0-9-]+:\d{12}:cluster/[^/]+/[^/]+$`)
	secretARN  = regexp.MustCompile(`^arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:.+$`)
	keyARN     = regexp.MustCompile(`^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/.+$`)
	bucketARN  = regexp.MustCompile(`^arn:aws[a-z-]*:s3:::[a-z0-9.-]{3,63}$`)
	prefixARN  = regexp.MustCompile(`^arn:aws[a-z-]*:s3:::[a-z0-9.-]{3,63}(?:/[A-Za-z0-9!_.()/-]{1,512})?$`)
	glueARN    = regexp.MustCompile(`^arn:aws[a-z-]*:glue:[a-z0-9-]+:\d{12}:registry/[A-Za-z0-9$#_.-]+$`)
	broker     = regexp.MustCompile(`^(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?:\d{1,5}$`)
	topicName  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)
	groupName  = regexp.MustCompile(`^[A-Za-z0-9\-/*:_+=.@]{1,200}$`)
)

func (c *checker) cluster(p *Props) {
	switch {
	case p.ClusterARN == "" && len(p.BootstrapServers) == 0:
		c.fail("ClusterARN", "", "an MSK cluster's ARN, or BootstrapServers for a self-managed cluster")
	case p.ClusterARN != "" && len(p.BootstrapServers) > 0:
		c.fail("BootstrapServers", strings.Join(p.BootstrapServers, ","),
			"none together with ClusterARN: one consumer reads one cluster")
	case p.ClusterARN != "":
		c.form("ClusterARN", p.ClusterARN, clusterARN, "arn:aws:kafka:REGION:ACCOUNT:cluster/NAME/UUID")
		oneOf(c, "Auth", p.Auth, AuthIAM, AuthSCRAM512, AuthMTLS, AuthNone)
		for prop, ids := range map[string][]string{"BrokerSubnetIDs": p.BrokerSubnetIDs,
			"BrokerSecurityGroupIDs": p.BrokerSecurityGroupIDs} {
			if len(ids) > 0 {
				c.fail(prop, strings.Join(ids, ","),
					"none with ClusterARN: AWS knows the network of an MSK cluster")
			}
		}
	default:
		c.selfManaged(p)
	}
	c.secrets(p)
}

func (c *checker) selfManaged(p *Props) {
	oneOf(c, "Auth", p.Auth, AuthSCRAM256, AuthSCRAM512, AuthPlain, AuthMTLS, AuthNone)
	if n := len(p.BootstrapServers); n > 10 {
		c.fail("BootstrapServers", n, "at most 10 brokers: these tell of the others")
	}
	for _, server := range p.BootstrapServers {
		c.form("BootstrapServers", server, broker, "HOST:PORT")
	}
	if (len(p.BrokerSubnetIDs) == 0) != (len(p.BrokerSecurityGroupIDs) == 0) {
		c.fail("BrokerSubnetIDs", strings.Join(p.BrokerSubnetIDs, ","),
			"both or neither of BrokerSubnetIDs and BrokerSecurityGroupIDs")
	}
	if p.Auth == AuthNone && len(p.BrokerSubnetIDs) == 0 {
		c.fail("Auth", p.Auth, "another one, or BrokerSubnetIDs: brokers on the internet must authenticate")
	}
}

// secret checks the secret of an authentication. of is the path of its fields: "" or "Outbox.".
func (c *checker) secret(of string, auth Auth, arn string) {
	needs := accessType[auth] != ""
	switch {
	case needs && arn == "":
		c.fail(of+"SecretARN", "", "the ARN of the secret that %sAuth %s needs", of, auth)
	case !needs && arn != "":
		c.fail(of+"SecretARN", arn, "none with %sAuth %s, which uses no secret", of, auth)
	case needs:
		c.form(of+"SecretARN", arn, secretARN, "arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME")
	}
}

func (c *checker) secrets(p *Props) {
	c.secret("", p.Auth, p.SecretARN)
	if p.CASecretARN != "" {
		c.form("CASecretARN", p.CASecretARN, secretARN, "arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME")
		if !p.selfManaged() {
			c.fail("CASecretARN", p.CASecretARN,
				"none with ClusterARN: Lambda trusts the certificates of MSK")
		}
	}
	if p.SecretKeyARN != "" {
		c.form("SecretKeyARN", p.SecretKeyARN, keyARN, "arn:aws:kms:REGION:ACCOUNT:key/ID")
	}
}

// form checks a string against a pattern, unless it is a token.
func (c *checker) form(prop, value string, pattern *regexp.Regexp, want string) {
	if !isToken(value) && !pattern.MatchString(value) {
		c.fail(prop, value, "%s", want)
	}
}

func (c *checker) topics(p *Props) {
	c.form("ConsumerGroup", p.ConsumerGroup, groupName, "1 to 200 letters, digits or any of -/*:_+=.@")
	if len(p.Topics) == 0 {
		c.fail("Topics", "", "at least one topic")
	}
	reader := make(map[string]string)
	seen := make(map[string]bool)
	for _, topic := range p.Topics {
		c.form("Topics", topic.Name, topicName, "a topic's name, 1 to 249 letters, digits or any of ._-")
		if seen[topic.Name] {
			c.fail("Topics", topic.Name, "each topic once")
		}
		seen[topic.Name] = true
		if topic.Group != p.ConsumerGroup {
			c.form("Topics", topic.Name+"="+topic.Group, groupName,
				"a group of 1 to 200 letters, digits or any of -/*:_+=.@")
		}
		if other, ok := reader[topic.Group]; ok {
			c.fail("Topics", topic.Name,
				"a group of its own, as in %s=GROUP: AWS wants another for every event source, and %s has %s",
				topic.Name, other, topic.Group)
		}
		reader[topic.Group] = topic.Name
	}
	oneOf(c, "KeyScope", p.KeyScope, KeyScopeTopic, KeyScopeNamespace)
	if p.DeployedKeyScope != "" {
		if names := p.forgotten(); len(names) > 0 {
			c.fail("KeyScope", p.pinnedScope(),
				"%q, the deployed one, or topics added to it: the records of %s would count as new and take effect again",
				p.DeployedKeyScope, strings.Join(names, ", "))
		}
	}
	if strings.Contains(p.Namespace, "#") {
		c.fail("Namespace", p.Namespace, "a name without '#'")
	}
	if p.DeployedNamespace != "" && p.DeployedNamespace != p.Namespace {
		c.fail("Namespace", p.Namespace,
			"%q, the deployed one: in another namespace every record counts as new and takes effect again",
			p.DeployedNamespace)
	}
}
