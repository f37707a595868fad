package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/infra/cdk/consumer"
)

// buildAndCheck builds the programs and the layer that the settings need and that were not given, and checks
// the settings. What a build can't change is reported before it.
func (s *settings) buildAndCheck(ctx context.Context, build func(context.Context, []string) error) error {
	if err := s.unbuildable(s.check()); err != nil || len(s.built) == 0 {
		return err
	}
	if err := build(ctx, s.built); err != nil {
		return err
	}
	return s.check()
}

// unbuildable returns the errors that are not about a file that is to be built.
func (s *settings) unbuildable(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	return errors.Join(slices.DeleteFunc(slices.Clone(joined.Unwrap()), func(err error) bool {
		var wrong *consumer.PropError
		return errors.As(err, &wrong) && slices.Contains(s.built, strings.TrimPrefix(wrong.Value, dist))
	})...)
}

// runBuild builds these files of dist, and shows the progress.
func runBuild(ctx context.Context, names []string) error {
	cmd := exec.CommandContext(ctx, "../../scripts/build.sh", append([]string{"only"}, names...)...) //nolint:gosec // names of settings.built
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s failed (%w): the messages are above", strings.Join(names, " "), err)
	}
	return nil
}
