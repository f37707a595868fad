//go:build !redis

package app

import (
	"strings"
	"testing"
)

func TestRedisInABuildWithoutIt(t *testing.T) {
	_, err := start(t, map[string]string{"IDEMSK_STORE": "redis"}, returning("", nil))
	if err == nil || !strings.Contains(err.Error(), "-tags redis") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v; want one line that says how to build it", err)
	}
}
