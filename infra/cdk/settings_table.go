package main

import (
	"time"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// allSettings are the app's settings, in the order of README.md.
var allSettings = []setting{
	{"stackName", "", str(func(s *settings) *string { return &s.stackName })},
	{"terminationProtection", "", boolean(func(s *settings) *bool { return &s.terminationProtection })},
	{"example", "", boolean(func(s *settings) *bool { return &s.example })},
	{"architecture", "Architecture", str(func(s *settings) *consumer.Architecture { return &s.props.Architecture })},
	{"codeDir", "CodeDir", str(func(s *settings) *string { return &s.props.CodeDir })},

	{"clusterArn", "ClusterARN", str(func(s *settings) *string { return &s.props.ClusterARN })},
	{"bootstrapServers", "BootstrapServers", list(func(s *settings) *[]string { return &s.props.BootstrapServers })},
	{"auth", "Auth", str(func(s *settings) *consumer.Auth { return &s.props.Auth })},
	{"secretArn", "SecretARN", str(func(s *settings) *string { return &s.props.SecretARN })},
	{"secretKeyArn", "SecretKeyARN", str(func(s *settings) *string { return &s.props.SecretKeyARN })},
	{"caSecretArn", "CASecretARN", str(func(s *settings) *string { return &s.props.CASecretARN })},
	{"brokerSubnets", "BrokerSubnetIDs", list(func(s *settings) *[]string { return &s.props.BrokerSubnetIDs })},
	{"brokerSecurityGroups", "BrokerSecurityGroupIDs", list(func(s *settings) *[]string { return &s.props.BrokerSecurityGroupIDs })},

	{"topics", "Topics", setTopics},
	{"consumerGroup", "ConsumerGroup", str(func(s *settings) *string { return &s.props.ConsumerGroup })},
	{"namespace", "Namespace", str(func(s *settings) *string { return &s.props.Namespace })},
	{"deployedNamespace", "DeployedNamespace", str(func(s *settings) *string { return &s.props.DeployedNamespace })},

	{"batchSize", "BatchSize", integer(func(s *settings) *int { return &s.props.BatchSize })},
	{"batchWindow", "BatchWindow", duration(func(s *settings) *time.Duration { return &s.props.BatchWindow })},
	{"recordTime", "RecordTime", duration(func(s *settings) *time.Duration { return &s.props.RecordTime })},
	{"startingPosition", "StartingPosition", setStartingPosition},
	{"onDemand", "OnDemand", boolean(func(s *settings) *bool { return &s.props.OnDemand })},
	{"pollersMin", "Pollers.Min", integer(func(s *settings) *int { return &s.props.Pollers.Min })},
	{"pollersMax", "Pollers.Max", integer(func(s *settings) *int { return &s.props.Pollers.Max })},
	{"pollerGroup", "Pollers.Group", str(func(s *settings) *string { return &s.props.Pollers.Group })},
	{"pollerLog", "PollerLog", str(func(s *settings) *consumer.PollerLog { return &s.props.PollerLog })},
	{"failures", "Failures", str(func(s *settings) *consumer.Failures { return &s.props.Failures })},
	{"retries", "Retries", setRetries},
	{"keepBatches", "KeepBatches", boolean(func(s *settings) *bool { return &s.props.KeepBatches })},
	{"maxRecordAge", "MaxRecordAge", duration(func(s *settings) *time.Duration { return &s.props.MaxRecordAge })},
	{"topicRetention", "TopicRetention", duration(func(s *settings) *time.Duration { return &s.props.TopicRetention })},
	{"filters", "Filters", setFilters},
	{"schemaRegistry", "SchemaRegistry.URI", registry(func(r *consumer.SchemaRegistry, v string) error { r.URI = v; return nil })},
	{"schemaRegistrySecretArn", "SchemaRegistry.SecretARN", registry(func(r *consumer.SchemaRegistry, v string) error { r.SecretARN = v; return nil })},
	{"schemaFormat", "SchemaRegistry.Source", registry(setSchemaFormat)},
	{"schemaValidate", "SchemaRegistry.ValidateKey", registry(setSchemaValidate)},
	{"onFailure", "OnFailure", setOnFailure},

	{"key", "Key", str(func(s *settings) *string { return &s.props.Key })},
	{"fingerprint", "Fingerprint", str(func(s *settings) *string { return &s.props.Fingerprint })},
	{"order", "Order", str(func(s *settings) *string { return &s.props.Order })},
	{"missingKey", "MissingKey", str(func(s *settings) *string { return &s.props.MissingKey })},
	{"storeDown", "StoreDown", str(func(s *settings) *string { return &s.props.StoreDown })},
	{"hashKeys", "HashKeys", boolean(func(s *settings) *bool { return &s.props.HashKeys })},
	{"concurrency", "Concurrency", integer(func(s *settings) *int { return &s.props.Concurrency })},
	{"batching", "Unbatched", setBatching},
	{"commitWindow", "CommitWindow", integer(func(s *settings) *int { return &s.props.CommitWindow })},
	{"lease", "Lease", duration(func(s *settings) *time.Duration { return &s.props.Lease })},
	{"maxClockSkew", "MaxClockSkew", duration(func(s *settings) *time.Duration { return &s.props.MaxClockSkew })},
	{"wait", "Wait", setWait},
	{"retention", "Retention", duration(func(s *settings) *time.Duration { return &s.props.Retention })},
	{"maxAttempts", "MaxAttempts", integer(func(s *settings) *int { return &s.props.MaxAttempts })},
	{"maxResult", "MaxResult", setMaxResult},
	{"deadlineMargin", "DeadlineMargin", duration(func(s *settings) *time.Duration { return &s.props.DeadlineMargin })},

	{"timeout", "Timeout", duration(func(s *settings) *time.Duration { return &s.props.Timeout })},
	{"memory", "MemoryMB", integer(func(s *settings) *int { return &s.props.MemoryMB })},
	{"reservedConcurrency", "ReservedConcurrency", integer(func(s *settings) *int { return &s.props.ReservedConcurrency })},
	{"logLevel", "LogLevel", str(func(s *settings) *string { return &s.props.LogLevel })},
	{"logRetentionDays", "LogRetentionDays", integer(func(s *settings) *int { return &s.props.LogRetentionDays })},
	{"tracing", "Tracing", boolean(func(s *settings) *bool { return &s.props.Tracing })},
	{"environment", "Environment", setEnvironment},
	{"canary", "Canary", str(func(s *settings) *consumer.Canary { return &s.props.Canary })},

	{"tableName", "TableName", str(func(s *settings) *string { return &s.props.TableName })},
	{"contributorInsights", "ContributorInsights", boolean(func(s *settings) *bool { return &s.props.ContributorInsights })},
	{"deletionProtection", "DeletionUnprotected", setDeletionProtection},
	{"removalPolicy", "RemovalPolicy", setRemovalPolicy},
	{"kmsKeyArn", "EncryptionKey", setARN("kms", func(s *settings) *string { return &s.kmsKeyARN })},

	{"vpc", "VPC", id("vpc", func(s *settings) *string { return &s.network.vpcID })},
	{"availabilityZones", "", list(func(s *settings) *[]string { return &s.network.zones })},
	{"subnets", "Subnets", ids("subnet", func(s *settings) *[]string { return &s.network.subnetIDs })},
	{"routeTables", "", ids("rtb", func(s *settings) *[]string { return &s.network.routeTableIDs })},
	{"securityGroups", "SecurityGroups", ids("sg", func(s *settings) *[]string { return &s.network.securityGroupIDs })},
	{"vpcEndpoints", "Endpoints", boolean(func(s *settings) *bool { return &s.props.Endpoints })},

	{"alarmEmail", "AlarmEmail", str(func(s *settings) *string { return &s.props.AlarmEmail })},
	{"alarmTopicArn", "AlarmTopic", setARN("sns", func(s *settings) *string { return &s.alarmTopicARN })},
	{"maxLag", "MaxLag", integer(func(s *settings) *int { return &s.props.MaxLag })},
	{"maxAge", "MaxAge", duration(func(s *settings) *time.Duration { return &s.props.MaxAge })},
}
