package consumer

import (
	"net/url"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/awsclient/redisauth"
)

// store checks the name of the table, and a store on an existing server.
func (c *checker) store() {
	s := &c.Store
	if form := forms[string(s.Type)]; s.Table != "" && form.check(s.Table) != "" {
		c.fail("Store.Table", s.Table, "%s", form.want)
	}
	want, schemes := "postgres://HOST:PORT/DATABASE", []string{"postgres", "postgresql"}
	if s.Type == StoreRedis {
		want, schemes = "rediss://HOST:PORT", []string{"redis", "rediss"}
	} else if s.Type != StorePostgres {
		return
	}
	iam, wrong := s.iam()
	switch u, err := url.Parse(s.URL); {
	case s.URL == "" && s.SecretARN == "":
		c.fail("Store.URL", "", "%s, or Store.SecretARN for a secret that names the server", want)
	case s.URL == "" || isToken(s.URL):
	case err != nil:
		c.fail("Store.URL", "…", "%s", want) // which may contain a password
	case wrong != nil:
		c.fail("Store.URL", u.Redacted(), "%s", wrong)
	case iam != nil && s.SecretARN != "":
		c.fail("Store.SecretARN", s.SecretARN, "none with iam in Store.URL, which uses no secret")
	case u.User != nil && iam == nil:
		c.fail("Store.URL", u.Redacted(), "a URL without user and password, which would be in the template: "+
			"put them into the secret of Store.SecretARN")
	case u.Host == "" || !slices.Contains(schemes, u.Scheme):
		c.fail("Store.URL", s.URL, "%s", want)
	}
	if c.Outbox != nil {
		c.fail("Outbox", "set", "none with Store.Type %s: this one is DynamoDB's; docs/outbox.md tells of the others",
			s.Type)
	}
}

// iam returns the login by IAM that the URL of Redis has, if its text is known.
func (s *Store) iam() (iam *redisauth.IAM, err error) {
	if s.Type == StoreRedis && !isToken(s.URL) {
		iam, _, err = redisauth.Cut(s.URL)
	}
	return iam, err
}

// allowLogin allows a role the login by IAM.
func (s *Store) allowLogin(role awsiam.Role) {
	if iam, _ := s.iam(); iam != nil { // whose errors are checked
		allow(role, "StoreLogin", []string{iam.Action()}, iam.Resources()...)
	}
}

// addTable adds the table of keys. It has no replicas: with last-writer-wins replication two owners could
// claim the same key. The store defines its attributes. With another store there is no table.
func (c *Consumer) addTable() {
	p := &c.props
	if p.Store.Type != StoreDynamoDB {
		return
	}
	c.Table = c.newTable("Table", &awsdynamodb.TablePropsV2{
		TableName:           textOrNil(p.Store.Table),
		PartitionKey:        attribute(dynamostore.AttrKey),
		TimeToLiveAttribute: jsii.String(dynamostore.AttrExpiry),
	})
}

// newTable adds a table with the common settings of all tables.
func (c *Consumer) newTable(id string, props *awsdynamodb.TablePropsV2) awsdynamodb.TableV2 {
	p := &c.props
	props.Billing = awsdynamodb.Billing_OnDemand(nil)
	props.PointInTimeRecoverySpecification = &awsdynamodb.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: jsii.Bool(true)}
	props.ContributorInsightsSpecification = &awsdynamodb.ContributorInsightsSpecification{Enabled: &p.Store.ContributorInsights}
	props.DeletionProtection = p.Store.DeletionProtection
	props.RemovalPolicy = p.RemovalPolicy
	props.Encryption = awsdynamodb.TableEncryptionV2_AwsManagedKey()
	if p.EncryptionKey != nil {
		props.Encryption = awsdynamodb.TableEncryptionV2_CustomerManagedKey(p.EncryptionKey, nil)
	}
	return awsdynamodb.NewTableV2(c.Construct, &id, props)
}

// attribute returns a key attribute of type S.
func attribute(name string) *awsdynamodb.Attribute {
	return &awsdynamodb.Attribute{Name: &name, Type: awsdynamodb.AttributeType_STRING}
}

// textOrNil returns nil for an empty string.
func textOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
