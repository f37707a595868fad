//go:build !postgres

package app

import (
	"strings"
	"testing"
)

func TestPostgreSQLInABuildWithoutIt(t *testing.T) {
	_, err := start(t, map[string]string{"IDEMSK_STORE": "postgres"}, returning("", nil))
	if err == nil || !strings.Contains(err.Error(), "-tags postgres") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v; want one line that says how to build it", err)
	}
}
