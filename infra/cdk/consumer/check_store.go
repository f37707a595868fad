package consumer

import (
	"net/url"
	"regexp"
)

// The values of IDEMSK_TABLE that the function accepts.
var (
	postgresTable = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_-]{0,62}\.)?[A-Za-z_][A-Za-z0-9_-]{0,47}$`)
	redisPrefix   = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)
)

func (c *checker) store(p *Props) {
	oneOf(c, "Store", p.Store, StoreDynamoDB, StorePostgres, StoreRedis)
	oneOf(c, "Claim", p.Claim, ClaimByKey, ClaimByPartition)
	switch p.Store {
	case StoreDynamoDB:
		c.noServer(p)
	case StorePostgres:
		c.server(p, "postgres://HOST:PORT/DATABASE", "postgres", "postgresql")
		c.form("StoreTable", p.StoreTable, postgresTable, "a table's name, or its schema and name")
	case StoreRedis:
		c.server(p, "rediss://HOST:PORT", "redis", "rediss")
		c.form("StoreTable", p.StoreTable, redisPrefix, "1 to 128 letters, digits, '_', '.', ':' or '-'")
	}
}

// noServer checks a store in the construct's own table.
func (c *checker) noServer(p *Props) {
	for _, given := range []struct{ prop, value string }{
		{"StoreURL", p.StoreURL}, {"StoreSecretARN", p.StoreSecretARN},
		{"StoreSecretKeyARN", p.StoreSecretKeyARN}, {"StoreTable", p.StoreTable},
	} {
		if given.value != "" {
			c.fail(given.prop, given.value,
				"none with Store dynamodb: its table is made here, and named by TableName")
		}
	}
}

// server checks a store on an existing server.
func (c *checker) server(p *Props, want string, schemes ...string) {
	if p.StoreURL == "" && p.StoreSecretARN == "" {
		c.fail("StoreURL", "", "%s, or StoreSecretARN for a secret that names the server", want)
	}
	if p.StoreURL != "" && !isToken(p.StoreURL) {
		c.storeURL(p.StoreURL, want, schemes)
	}
	if p.StoreSecretARN != "" {
		c.form("StoreSecretARN", p.StoreSecretARN, secretARN,
			"arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME")
	}
	if p.StoreSecretKeyARN != "" && p.StoreSecretARN == "" {
		c.fail("StoreSecretKeyARN", p.StoreSecretKeyARN, "StoreSecretARN with it")
	}
	if p.Claim == ClaimByPartition {
		c.fail("Claim", p.Claim, "key with Store %s: only DynamoDB keeps leases of partitions", p.Store)
	}
	if p.Outbox != nil {
		c.fail("Outbox", "set", "none with Store %s: this one is DynamoDB's; docs/outbox.md tells of the others", p.Store)
	}
	if p.TableName != "" {
		c.fail("TableName", p.TableName, "none with Store %s, which has StoreTable: TableName is of DynamoDB",
			p.Store)
	}
	if p.ContributorInsights {
		c.fail("ContributorInsights", true, "none with Store %s: it is of DynamoDB", p.Store)
	}
}

// storeURL checks a URL. It refuses one with a password, because the template would contain it, and does not
// repeat it.
func (c *checker) storeURL(text, want string, schemes []string) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		c.fail("StoreURL", "…", "%s", want)
	case u.User != nil:
		c.fail("StoreURL", u.Redacted(),
			"a URL without user and password, which would be in the template: put them into the secret of StoreSecretARN")
	case u.Host == "" || (u.Scheme != schemes[0] && u.Scheme != schemes[1]):
		c.fail("StoreURL", text, "%s", want)
	}
}
