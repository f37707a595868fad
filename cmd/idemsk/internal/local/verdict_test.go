package local_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

// verdict waits until the verdict of the page holds, and returns it.
func (p *page) verdict(what string, holds func(v *console.Verdict) bool) (v console.Verdict) {
	p.t.Helper()
	p.until(what, func(*console.Run) bool {
		v = get[console.Verdict](p, "api/verdict")
		return holds(&v)
	})
	return v
}

// The page compares the ledger with the records while the run goes on, and an effect of another program is a
// problem.
func TestPageVerifiesTheLedger(t *testing.T) {
	t.Parallel()
	var endpoint string
	p := open(t, func(o *local.Options) {
		say := o.Say
		o.Say = func(line string) {
			say(line)
			if at := regexp.MustCompile(`DynamoDB in this process at (\S+),`).FindStringSubmatch(
				line); at != nil {
				endpoint = at[1]
			}
		}
	})
	state := func(state string) func(v *console.Verdict) bool {
		return func(v *console.Verdict) bool { return len(v.Sides) == 1 && v.Sides[0].State == state }
	}
	p.do(console.Action{Action: console.ActionDisable}, "disabled")
	p.produce("pay-1", "")
	p.produce("pay-1", "")
	p.produce("pay-2", `,"simulate":"permanent"`)
	p.until("the records are in the topic", func(run *console.Run) bool { return progress(run).End == 3 })
	v := p.verdict("the records are expected",
		func(v *console.Verdict) bool { return state(console.SideDelivering)(v) && v.Sides[0].Records == 3 })
	if s := v.Sides[0]; s.Open != 3 || s.Payments != 1 ||
		!slices.Equal(s.Sums, []console.Sum{{Currency: "EUR", Expected: 5, Off: 5}}) ||
		len(s.Problems) != 0 || s.OffAll != 1 {
		t.Errorf("before the delivery: %+v", s)
	}
	p.do(console.Action{Action: console.ActionEnable}, "enabled")
	v = p.verdict("the ledger is exact", state(console.SideExact))
	if s := v.Sides[0]; s.Open != 0 || s.Records != 3 ||
		!slices.Equal(s.Sums, []console.Sum{{Currency: "EUR", Expected: 5, Found: 5}}) || s.OffAll != 0 {
		t.Errorf("after the delivery: %+v", s)
	}
	if _, err := dynamodb.NewFromConfig(awstest.Config(t, endpoint)).PutItem(t.Context(),
		&dynamodb.PutItemInput{
			TableName: aws.String("idemsk-ledger"), Item: map[string]types.AttributeValue{
				"account": &types.AttributeValueMemberS{Value: "mallory/EUR"},
				"balance": &types.AttributeValueMemberN{Value: "100"},
			},
		}); err != nil {
		t.Fatal(err)
	}
	v = p.verdict("the ledger is wrong", state(console.SideWrong))
	if s := v.Sides[0]; s.ProblemsAll != 1 ||
		!strings.Contains(s.Problems[0], "mallory/EUR has 100, want 0") ||
		!slices.Equal(s.Off, []console.Balance{{Account: "mallory/EUR", Found: 100}}) {
		t.Errorf("with a booking of another program: %+v", s)
	}
}

// A run that ends shows its verdict to the pages that are open. That of the same records without idemsk is
// beside it.
func TestPageShowsTheVerdictAtTheEnd(t *testing.T) {
	t.Parallel()
	p := open(t, func(o *local.Options) {
		o.Produce, o.Prove, o.UntilDrained, o.Copies, o.Compare = 40, true, true, 0.5, true
	})
	var last console.Run
	p.until("it has ended", func(run *console.Run) bool { last = *run; return run.Ended })
	if last.Verdict == nil || len(last.Verdict.Sides) != 2 || len(last.Actions) != 0 {
		t.Fatalf("the last state is %+v", last)
	}
	with, without := last.Verdict.Sides[0], last.Verdict.Sides[1]
	if with.State != console.SideExact || with.Records < 40 || with.Open != 0 || with.OffAll != 0 ||
		with.Name != "with idemsk" {
		t.Errorf("with idemsk: %+v", with)
	}
	if without.State != console.SideWrong || without.Records != with.Records || without.OffAll == 0 ||
		without.ProblemsAll != 0 || without.Name != "without idemsk" {
		t.Errorf("without idemsk: %+v", without)
	}
}

// The page says why a ledger can't be verified.
func TestPageWithoutVerdict(t *testing.T) {
	t.Parallel()
	p := open(t, func(o *local.Options) { o.ESM.FilterCriteria = `{"Filters":[{"Pattern":"{\"value\":{\"a\":[1]}}"}]}` })
	if v := get[console.Verdict](p, "api/verdict"); !strings.Contains(v.Why,
		"no option that drops records") || len(v.Sides) != 0 {
		t.Errorf("%+v", v)
	}
}
