package redrive

import "testing"

func TestTheNameOfAFunction(t *testing.T) {
	t.Parallel()
	for _, given := range []string{
		"pay", "pay:live", "pay:17", "123456789012:function:pay", "123456789012:function:pay:live",
		"arn:aws:lambda:eu-central-1:123456789012:function:pay",
		"arn:aws-us-gov:lambda:us-gov-west-1:123456789012:function:pay:live",
	} {
		if got := functionName(given); got != "pay" {
			t.Errorf("%s: %s; want pay", given, got)
		}
	}
}
