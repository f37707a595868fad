package topic_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
)

func TestTopicThatCannotBeCreated(t *testing.T) {
	t.Parallel()
	brokers := clitest.NewCluster(t, kfake.SeedTopics(1, "payments"))
	for says, args := range map[string][]string{
		"TOPIC_ALREADY_EXISTS":                      {"payments"},
		"INVALID_REPLICATION_FACTOR":                {"other", "--replication-factor", "3"},
		"creating the topic payments at " + brokers: {"payments"},
	} {
		if r := clitest.Run(t, append([]string{"topic", "create", "--brokers", brokers},
			args...)...); r.Code != 1 || !strings.Contains(r.Err, says) {
			t.Errorf("%v: %+v; want exit 1 and %q", args, r, says)
		}
	}
}
