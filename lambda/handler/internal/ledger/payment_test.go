package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/lambda/msk"
)

func good() Payment {
	return Payment{PaymentID: "p-1", Account: "acc-1", Amount: 1250, Currency: "EUR"}
}

func TestInvalidPaymentsAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(p *Payment)
		says  []string
	}{
		"nothing in it": {func(p *Payment) { *p = Payment{} }, []string{
			"paymentId is missing", "account is missing", "amount is missing or 0", `currency is ""`,
		}},
		"no ID":      {func(p *Payment) { p.PaymentID = "" }, []string{"paymentId is missing"}},
		"no account": {func(p *Payment) { p.Account = "" }, []string{"account is missing"}},
		"a long account": {func(p *Payment) { p.Account = strings.Repeat("a", 1025) },
			[]string{"account has 1025 bytes: want at most 1024"}},
		"a long ID": {func(p *Payment) { p.PaymentID = strings.Repeat("p", 1025) },
			[]string{"paymentId has 1025 bytes: want at most 1024"}},
		"a NUL in an ID": {func(p *Payment) { p.PaymentID = "p\x00" },
			[]string{`paymentId is "p\x00": want no control characters`}},
		"a NUL in an account": {func(p *Payment) { p.Account = "acc\x00" },
			[]string{`account is "acc\x00": want no control characters`}},
		"a line in an account": {func(p *Payment) { p.Account = "acc\n1" },
			[]string{`account is "acc\n1": want no control characters`}},
		"a C1 control in it": {func(p *Payment) { p.Account = "acc\u0085" },
			[]string{"want no control characters"}},
		"a long currency": {func(p *Payment) { p.Currency = strings.Repeat("E", 1e6) },
			[]string{`currency is "EEEEEEEEEEEEEEEE": want`}},
		"no amount": {func(p *Payment) { p.Amount = 0 }, []string{"amount is missing or 0"}},
		"a currency in words": {func(p *Payment) { p.Currency = "euro" },
			[]string{`currency is "euro": want three capital letters`}},
		"a currency and a tab": {func(p *Payment) { p.Currency = "EUR\n" }, []string{"currency is"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := good()
			tc.spoil(&p)
			ledger := newMemoryLedger()
			_, err := (&bookkeeper{ledger: ledger}).book(t.Context(), p, msk.Record{})
			if err == nil {
				t.Fatal("it was booked")
			}
			equal(t, "permanent", idem.IsPermanent(err), true)
			for _, want := range append(tc.says, fmt.Sprintf("payment %.64q", p.PaymentID)) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			equal(t, "accounts", len(ledger.balances), 0)
		})
	}
}

func TestBookingsAddUp(t *testing.T) {
	b := &bookkeeper{ledger: newMemoryLedger()}
	for i, want := range []int64{1250, 2500, 2400} {
		p := good()
		if i == 2 {
			p.Amount = -100 // a refund
		}
		receipt, err := b.book(t.Context(), p, msk.Record{})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "receipt", receipt, Receipt{PaymentID: "p-1", Account: "acc-1", Balance: want,
			Currency: "EUR"})
	}
	dollars := good()
	dollars.Currency = "USD"
	receipt, err := b.book(t.Context(), dollars, msk.Record{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "balance in another currency", receipt.Balance, 1250)
}

// closed is a ledger that is not there.
type closed struct{}

// Add implements Ledger.
func (closed) Add(context.Context, string, string, int64) (int64, error) {
	return 0, idem.Unavailable(errors.New("closed"))
}

func TestLedgersErrorKeepsItsClass(t *testing.T) {
	_, err := (&bookkeeper{ledger: closed{}}).book(t.Context(), good(), msk.Record{})
	equal(t, "unavailable", idem.IsUnavailable(err), true)
	equal(t, "message", err.Error(), `booking payment "p-1": closed`)
}
