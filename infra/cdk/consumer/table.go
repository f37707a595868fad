package consumer

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/idem/dynamostore"
)

// addTable adds the table of keys. It has no replicas: with last-writer-wins replication two owners could
// claim the same key. The store defines its attributes. With another store there is no table.
func (c *Consumer) addTable() {
	p := &c.props
	if p.Store != StoreDynamoDB {
		return
	}
	c.Table = c.newTable("Table", &awsdynamodb.TablePropsV2{
		TableName:           optional(p.TableName),
		PartitionKey:        text(dynamostore.AttrKey),
		TimeToLiveAttribute: jsii.String(dynamostore.AttrExpiry),
	})
}

// newTable adds a table with the common settings of all tables.
func (c *Consumer) newTable(id string, props *awsdynamodb.TablePropsV2) awsdynamodb.TableV2 {
	p := &c.props
	props.Billing = awsdynamodb.Billing_OnDemand(nil)
	props.PointInTimeRecoverySpecification = &awsdynamodb.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: jsii.Bool(true)}
	props.ContributorInsightsSpecification = &awsdynamodb.ContributorInsightsSpecification{Enabled: &p.ContributorInsights}
	props.DeletionProtection = jsii.Bool(!p.DeletionUnprotected)
	props.RemovalPolicy = p.RemovalPolicy
	props.Encryption = awsdynamodb.TableEncryptionV2_AwsManagedKey()
	if p.EncryptionKey != nil {
		props.Encryption = awsdynamodb.TableEncryptionV2_CustomerManagedKey(p.EncryptionKey, nil)
	}
	return awsdynamodb.NewTableV2(c.Construct, &id, props)
}

// text returns a key attribute of type S.
func text(name string) *awsdynamodb.Attribute {
	return &awsdynamodb.Attribute{Name: &name, Type: awsdynamodb.AttributeType_STRING}
}

// optional returns nil for an empty string.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
