package consumer

import (
	"net"
	"slices"
	"strings"
	"time"
)

// The bounds of an outbox's settings; those of IDEMSK_* are what the relay itself takes.
const (
	minKafkaTimeout  = time.Second
	maxKafkaTimeout  = time.Minute
	maxRelayAttempts = 20
	relayMargin      = time.Second // the time that the relay needs besides KafkaTimeout
	maxRelayTimeout  = 15 * time.Minute
	maxOutboxAge     = 12 * time.Hour
	maxCA            = 3072 // Lambda allows 4 KB for all variables
)

func (c *checker) outbox(p *Props) {
	o := p.Outbox
	if o == nil {
		return
	}
	c.program("Outbox.RelayDir", o.RelayDir, "relay", "dist/relay-arm64")
	if o.TableName != "" {
		c.form("Outbox.TableName", o.TableName, tableName, "3 to 255 letters, digits, '_', '.' or '-'")
		if o.TableName == p.TableName {
			c.fail("Outbox.TableName", o.TableName,
				"another one than TableName: a transaction can't write the table of keys")
		}
	}
	c.outboxBrokers(p, o)
	c.outboxAuth(p, o)
	c.outboxTopics(o)
	c.relay(o)
	c.outboxNetwork(p, o)
	c.lasts("Outbox.MaxAge", o.MaxAge, time.Minute, maxOutboxAge)
}

func (c *checker) outboxBrokers(p *Props, o *OutboxProps) {
	if len(o.Brokers) == 0 && !p.selfManaged() {
		c.fail("Outbox.Brokers", "", "HOST:PORT of some brokers: `aws kafka get-bootstrap-brokers` tells those of ClusterARN, which CloudFormation does not know")
	}
	if p.selfManaged() && slices.Equal(o.Brokers, p.BootstrapServers) {
		return // they were checked
	}
	for _, address := range o.Brokers {
		c.form("Outbox.Brokers", address, broker, "HOST:PORT")
	}
}

func (c *checker) outboxAuth(p *Props, o *OutboxProps) {
	if p.selfManaged() {
		oneOf(c, "Outbox.Auth", o.Auth, AuthSCRAM256, AuthSCRAM512, AuthPlain, AuthMTLS, AuthNone)
	} else {
		oneOf(c, "Outbox.Auth", o.Auth, AuthIAM, AuthSCRAM512, AuthMTLS, AuthNone)
	}
	if !c.sound("Outbox.Auth") {
		return
	}
	c.secret("Outbox.", o.Auth, o.SecretARN)
	if o.SecretKeyARN != "" {
		c.form("Outbox.SecretKeyARN", o.SecretKeyARN, keyARN, "arn:aws:kms:REGION:ACCOUNT:key/ID")
		if o.SecretARN == "" {
			c.fail("Outbox.SecretKeyARN", o.SecretKeyARN, "Outbox.SecretARN with it")
		}
	}
	switch {
	case o.CA != "" && !o.encrypted():
		c.fail("Outbox.CA", "…", "none without Outbox.TLS: with Outbox.Auth none there are no certificates")
	case o.CA == "" && o.encrypted() && p.CASecretARN != "":
		c.fail("Outbox.CA", "", "the certificate that is in CASecretARN, in PEM or a file: the relay does not read that secret")
	case len(o.CA) > maxCA:
		c.fail("Outbox.CA", "…", "at most %d bytes, or a file beside the bootstrap: /var/task/NAME", maxCA)
	}
}

func (c *checker) outboxTopics(o *OutboxProps) {
	switch {
	case !c.sound("Outbox.Auth"):
	case o.Auth == AuthIAM && len(o.Topics) == 0:
		c.fail("Outbox.Topics", "", "the topics that handlers publish to: the relay may write no other")
	case o.Auth != AuthIAM && len(o.Topics) > 0:
		c.fail("Outbox.Topics", strings.Join(o.Topics, ","),
			"none with Outbox.Auth %s: Kafka's own ACLs say what may be written", o.Auth)
	}
	seen := make(map[string]bool)
	for _, topic := range o.Topics {
		c.form("Outbox.Topics", topic, topicName, "a topic's name, 1 to 249 letters, digits or any of ._-")
		if seen[topic] {
			c.fail("Outbox.Topics", topic, "each topic once")
		}
		seen[topic] = true
	}
}

func (c *checker) relay(o *OutboxProps) {
	c.lasts("Outbox.KafkaTimeout", o.KafkaTimeout, minKafkaTimeout, maxKafkaTimeout)
	c.within("Outbox.Attempts", o.Attempts, 1, maxRelayAttempts)
	if least := o.KafkaTimeout + relayMargin; c.sound("Outbox.KafkaTimeout") && o.Timeout <= least {
		c.fail("Outbox.Timeout", short(o.Timeout),
			"more than Outbox.KafkaTimeout and a second, %s: the relay would begin nothing", short(least))
	} else {
		c.wholeSeconds("Outbox.Timeout", o.Timeout, time.Second, maxRelayTimeout)
	}
	c.within("Outbox.MemoryMB", o.MemoryMB, minMemoryMB, maxMemoryMB)
}

func (c *checker) outboxNetwork(p *Props, o *OutboxProps) {
	if o.VPC != nil {
		return
	}
	switch {
	case !p.selfManaged() && !slices.ContainsFunc(o.Brokers, isToken) && !publicMSK(o.Brokers):
		c.fail("Outbox.VPC", "", "the VPC of the brokers: of the ports of MSK only 9194, 9196 and 9198 are public")
	case len(p.BrokerSubnetIDs) > 0:
		c.fail("Outbox.VPC", "", "a VPC that reaches the brokers, as the event source does from BrokerSubnetIDs")
	}
	if o.Subnets != nil {
		c.fail("Outbox.Subnets", "set", "Outbox.VPC with it")
	}
	if len(o.SecurityGroups) > 0 {
		c.fail("Outbox.SecurityGroups", "set", "Outbox.VPC with it")
	}
}

// publicMSK reports whether an MSK cluster's brokers can be reached from outside their VPC, by their ports.
func publicMSK(brokers []string) bool {
	return !slices.ContainsFunc(brokers, func(address string) bool {
		_, port, _ := net.SplitHostPort(address)
		return port != "9194" && port != "9196" && port != "9198"
	})
}
