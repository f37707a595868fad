package consumer_test

import (
	"os"
	"testing"

	"github.com/aws/jsii-runtime-go"
)

// TestMain ends the CDK's runtime, which leaves its folder otherwise.
func TestMain(m *testing.M) {
	code := m.Run()
	jsii.Close()
	os.Exit(code)
}
