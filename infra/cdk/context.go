package main

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
	"github.com/idemsk/idemsk/internal/text/near"
)

// deployment is what the context sets: properties of the construct, and values of the app itself.
type deployment struct {
	props                                                consumer.Props
	stackName, example, topics, alarmTopicARN, ephemeral string
}

// value is a value of the context. README.md has a row for each.
type value struct {
	name, property string // of the construct; none if the app itself checks the value
	to             *string
	form, want     string // if the app checks it
}

func (d *deployment) values() []value {
	p := &d.props
	return []value{
		{"stackName", "", &d.stackName, `[A-Za-z][A-Za-z0-9-]{0,127}`, "a letter, then up to 127 letters, digits or '-'"},
		{"code", "Function.Code", &p.Function.Code, "", ""},
		{"example", "", &d.example, `ledger|`, "ledger, the demonstration (lambda/handler)"},
		{"architecture", "Function.Architecture", (*string)(&p.Function.Architecture), "", ""},
		{"runtime", "Function.Runtime", &p.Function.Runtime, "", ""},
		{"handler", "Function.Handler", &p.Function.Handler, "", ""},
		{"clusterArn", "Cluster.ARN", &p.Cluster.ARN, "", ""},
		{"topics", "Source.Topics", &d.topics, "", ""},
		{"consumerGroup", "Source.ConsumerGroup", &p.Source.ConsumerGroup, "", ""},
		{"store", "Store.Type", (*string)(&p.Store.Type), "", ""},
		{"storeUrl", "Store.URL", &p.Store.URL, "", ""},
		{"storeSecretArn", "Store.SecretARN", &p.Store.SecretARN, "", ""},
		{"alarmEmail", "Alarms.Email", &p.Alarms.Email, "", ""},
		{"alarmTopicArn", "", &d.alarmTopicARN, `arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:.+|`, "an ARN like arn:aws:sns:REGION:ACCOUNT:NAME"},
		{"ephemeral", "", &d.ephemeral, `true|false|`, "true or false"},
	}
}

// readContext reads the context. Its error has one line for each fault.
func readContext(context map[string]any) (*deployment, error) {
	d := &deployment{stackName: "idemsk"}
	var names []string
	var errs []error
	for _, v := range d.values() {
		names = append(names, v.name)
		if given, ok := context[v.name]; ok {
			*v.to = fmt.Sprint(given) // cdk.json may have true or a number
		}
		if v.form != "" && !regexp.MustCompile(`^(`+v.form+`)$`).MatchString(*v.to) {
			errs = append(errs, fmt.Errorf("%s is %q: want %s", v.name, *v.to, v.want))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(context)) {
		if slices.Contains(names, name) || strings.ContainsAny(name, ":/") {
			continue // what contains : or / is the CDK's own: aws:cdk:…, @aws-cdk/…, vpc-provider:…
		}
		perhaps := ""
		if meant := near.Of(name, "", names); meant != "" {
			perhaps = "; is it " + meant + "?"
		}
		errs = append(errs, fmt.Errorf("%s is not read from the context%s (infra/cdk/README.md lists what is; props.go has the rest)", name, perhaps))
	}
	for _, topic := range strings.FieldsFunc(d.topics, func(r rune) bool { return r == ',' || r == ' ' }) {
		name, group, _ := strings.Cut(topic, "=")
		d.props.Source.Topics = append(d.props.Source.Topics, consumer.Topic{Name: name, Group: group})
	}
	if d.ephemeral == "true" {
		d.props.RemovalPolicy, d.props.Store.DeletionProtection = awscdk.RemovalPolicy_DESTROY, jsii.Bool(false)
	}
	return d, errors.Join(errs...)
}
