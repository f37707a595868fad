package consumer

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/idem/dynamostore"
)

// addTable adds the table of keys. It has no replicas: a last-writer-wins copy in another region would let two owners claim one
// key. Its attributes are named by the store. Another store has none: its server is there.
func (c *Consumer) addTable() {
	p := &c.props
	if p.Store != StoreDynamoDB {
		return
	}
	props := &awsdynamodb.TablePropsV2{
		TableName:           optional(p.TableName),
		PartitionKey:        &awsdynamodb.Attribute{Name: jsii.String(dynamostore.AttrKey), Type: awsdynamodb.AttributeType_STRING},
		TimeToLiveAttribute: jsii.String(dynamostore.AttrExpiry),
		Billing:             awsdynamodb.Billing_OnDemand(nil),
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{
			PointInTimeRecoveryEnabled: jsii.Bool(true),
		},
		ContributorInsightsSpecification: &awsdynamodb.ContributorInsightsSpecification{Enabled: &p.ContributorInsights},
		DeletionProtection:               jsii.Bool(!p.DeletionUnprotected),
		RemovalPolicy:                    p.RemovalPolicy,
		Encryption:                       awsdynamodb.TableEncryptionV2_AwsManagedKey(),
	}
	if p.EncryptionKey != nil {
		props.Encryption = awsdynamodb.TableEncryptionV2_CustomerManagedKey(p.EncryptionKey, nil)
	}
	c.Table = awsdynamodb.NewTableV2(c.Construct, jsii.String("Table"), props)
}

// optional returns nil for an empty string, which stands for "not given".
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
