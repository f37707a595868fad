package consumer_test

import (
	"flag"
	"os"
	"testing"

	"github.com/aws/jsii-runtime-go"
)

var update = flag.Bool("update", false, "write testdata anew")

// TestMain ends the CDK's runtime, which leaves its folder otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	jsii.Close()
	os.Exit(code)
}
