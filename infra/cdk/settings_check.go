package main

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

var stackName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,127}$`)

// check checks the settings after all were read. Its errors name the settings as they were given.
func (s *settings) check() error {
	architecture := "arm64"
	if s.props.Architecture == consumer.X8664 {
		architecture = "amd64"
	}
	s.findBuilt(architecture)
	var errs []error
	if !stackName.MatchString(s.stackName) {
		errs = append(errs, &consumer.PropError{Prop: "stackName", Value: s.stackName,
			Want: "a letter, then up to 127 letters, digits or '-'"})
	}
	if arn := s.props.DeadLetterBucketARN; arn != "" && strings.HasPrefix(s.props.CodeDir, builtFor) {
		errs = append(errs, &consumer.PropError{Prop: "deadLetterBucketArn", Value: arn,
			Want: "none with the example, which has no client of S3"})
	}
	errs = append(errs, s.checkOutbox(architecture)...)
	errs = append(errs, s.checkMaintenance(architecture)...)
	errs = append(errs, s.network.check(s.props.Endpoints)...)
	checked := s.props
	if s.network.vpcID != "" {
		checked.VPC = notBuilt{}
	}
	errs = append(errs, inSettings(consumer.Check(checked))...)
	return errors.Join(errs...)
}

// findBuilt completes the props with what `make build` has built: the example's function, or the layer for a
// function in another language, which is never the example.
func (s *settings) findBuilt(architecture string) {
	store := ""
	if given := s.props.Store; given == consumer.StorePostgres || given == consumer.StoreRedis {
		store = "-" + string(given)
	}
	if s.props.Runtime == "" || s.props.Runtime == consumer.ProvidedAL2023 {
		s.props.CodeDir = cmp.Or(s.props.CodeDir, builtFor+architecture+store)
		return
	}
	s.example = false
	s.props.LayerZip = cmp.Or(s.props.LayerZip,
		layerBuiltFor+string(cmp.Or(s.props.Architecture, consumer.ARM64))+store+".zip")
}

// notBuilt is a placeholder for an existing VPC, for Check.
type notBuilt struct{ awsec2.IVpc }

// checkOutbox adds the outbox to the props, if there is one.
func (s *settings) checkOutbox(architecture string) []error {
	if !s.withOutbox {
		if reflect.ValueOf(s.outbox).IsZero() {
			return nil
		}
		return []error{&consumer.PropError{Prop: "outbox", Value: "false",
			Want: "true with a setting of the outbox or its relay"}}
	}
	s.outbox.RelayDir = cmp.Or(s.outbox.RelayDir, relayBuiltFor+architecture)
	s.props.Outbox = &s.outbox
	return nil
}

// checkMaintenance adds the maintenance to the props, if there is one.
func (s *settings) checkMaintenance(architecture string) []error {
	if !s.withMaintenance {
		if s.maintenance == (consumer.MaintenanceProps{}) {
			return nil
		}
		return []error{&consumer.PropError{Prop: "maintenance", Value: "false",
			Want: "true with a setting of it"}}
	}
	s.maintenance.Dir = cmp.Or(s.maintenance.Dir, maintenanceBuiltFor+architecture)
	s.props.Maintenance = &s.maintenance
	return nil
}

func (n *network) check(endpoints bool) []error {
	var errs []error
	fail := func(name, value, want string) {
		errs = append(errs, &consumer.PropError{Prop: name, Value: value, Want: want})
	}
	if n.vpcID == "" {
		for name, ids := range map[string][]string{
			"availabilityZones": n.zones, "subnets": n.subnetIDs, "routeTables": n.routeTableIDs,
			"securityGroups": n.securityGroupIDs,
		} {
			if len(ids) > 0 {
				fail(name, fmt.Sprint(ids), "vpc with it")
			}
		}
		return errs
	}
	if len(n.subnetIDs) == 0 || len(n.subnetIDs) != len(n.zones) {
		fail("subnets", fmt.Sprint(n.subnetIDs),
			fmt.Sprintf("one private subnet of vpc for each of availabilityZones, %v", n.zones))
	}
	if (endpoints || len(n.routeTableIDs) > 0) && len(n.routeTableIDs) != len(n.subnetIDs) {
		fail("routeTables", fmt.Sprint(n.routeTableIDs),
			"the route table of each of subnets, for DynamoDB's endpoint")
	}
	return errs
}

// inSettings replaces the names of props in the construct's errors by the names of settings.
func inSettings(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var errs []error
	for _, err := range joined.Unwrap() {
		var wrong *consumer.PropError
		if errors.As(err, &wrong) {
			err = &consumer.PropError{Prop: settingOf(wrong.Prop), Value: wrong.Value,
				Want: inWords(wrong.Want)}
		}
		errs = append(errs, err)
	}
	return errs
}

// settingOf returns the name of the setting that sets a prop.
func settingOf(prop string) string {
	switch prop {
	case "FiniteRetries":
		return "retries"
	case "Outbox.VPC": // the app has one VPC for both functions
		return "vpc"
	}
	for _, exact := range []bool{true, false} {
		for _, setting := range allSettings {
			parent, _, _ := strings.Cut(setting.prop, ".")
			of, _, _ := strings.Cut(prop, ".")
			if setting.prop == prop || (!exact && parent == of) {
				return setting.name
			}
		}
	}
	return prop
}

// propWord matches a word that may be the name of a prop in a message.
var propWord = regexp.MustCompile(`\b[A-Z][A-Za-z]+(\.[A-Z][A-Za-z]+)?`)

func inWords(text string) string { return propWord.ReplaceAllStringFunc(text, settingOf) }
