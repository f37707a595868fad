package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

const dist = "../../dist/" // where scripts/build.sh puts what it builds

// buildAndCheck builds the programs and the layer that the properties need and do not name, and checks the
// properties. What a build can't change is reported before it.
func (d *deployment) buildAndCheck(ctx context.Context) error {
	built := d.unnamed()
	if err := d.check(built); err != nil || len(built) == 0 {
		return err
	}
	build := exec.CommandContext(ctx, "../../scripts/build.sh", append([]string{"only"}, built...)...) //nolint:gosec // names of unnamed
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building %s failed (%w): the messages are above", strings.Join(built, " "), err)
	}
	return d.check(nil)
}

// unnamed names the files in dist that the properties need and do not name, and returns their names.
func (d *deployment) unnamed() (names []string) {
	use := func(file *string, name string) {
		if *file == "" {
			*file = dist + name
			names = append(names, name)
		}
	}
	p := &d.props
	architecture := map[consumer.Architecture]string{"": "arm64", consumer.ARM64: "arm64", consumer.X8664: "amd64"}[p.Function.Architecture]
	store := map[consumer.StoreType]string{consumer.StorePostgres: "-postgres", consumer.StoreRedis: "-redis"}[p.Store.Type]
	if cmp.Or(p.Function.Runtime, consumer.ProvidedAL2023) != consumer.ProvidedAL2023 {
		use(&p.Function.LayerZip, "idemsk-layer-"+string(cmp.Or(p.Function.Architecture, consumer.ARM64))+store+".zip")
	} else if d.example != "" {
		use(&p.Function.Code, "handler-"+architecture+store)
	}
	if p.Outbox != nil {
		use(&p.Outbox.RelayCode, "relay-"+architecture)
	}
	if p.Maintenance != nil {
		use(&p.Maintenance.Code, "maintenance-"+architecture)
	}
	return names
}

// check returns the construct's errors, but for those about files of dist that are to be built. Each names the
// value of the context that sets its property, if there is one.
func (d *deployment) check(toBuild []string) error {
	joined, ok := consumer.Check(d.props).(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var errs []error
	for _, err := range joined.Unwrap() {
		var wrong *consumer.PropError
		if errors.As(err, &wrong) && slices.Contains(toBuild, strings.TrimPrefix(wrong.Value, dist)) {
			continue
		}
		values := d.values()
		if i := slices.IndexFunc(values, func(v value) bool { return wrong != nil && v.property == wrong.Prop }); i >= 0 {
			err = fmt.Errorf("%w (context: %s)", err, values[i].name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
