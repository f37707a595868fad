package ledger

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/lambda/msk"
)

// Payment is a record's value.
type Payment struct {
	PaymentID string `json:"paymentId"`
	Account   string `json:"account"`
	Amount    int64  `json:"amount"` // in minor units: cents
	Currency  string `json:"currency"`
	// Simulate requests a simulated failure, with IDEMSK_SIMULATE=on only; see simulation.
	Simulate string `json:"simulate,omitempty"`
}

// Receipt is the stored result, which duplicates get.
type Receipt struct {
	PaymentID string `json:"paymentId"`
	Account   string `json:"account"`
	Balance   int64  `json:"balance,omitempty"` // 0 if the booking commits with the completion
	Currency  string `json:"currency"`
}

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

// maxName is the maximum number of bytes of a payment's ID and of an account's name. It fits the keys of
// every ledger.
const maxName = 1024

func (p *Payment) validate() error {
	var errs []error
	for _, name := range [...]struct{ what, is string }{{"paymentId", p.PaymentID}, {"account", p.Account}} {
		switch {
		case name.is == "":
			errs = append(errs, fmt.Errorf("%s is missing", name.what))
		case len(name.is) > maxName:
			errs = append(errs, fmt.Errorf("%s has %d bytes: want at most %d", name.what, len(name.is),
				maxName))
		case strings.ContainsFunc(name.is, unicode.IsControl):
			// PostgreSQL can't store a NUL, and the others are invisible
			errs = append(errs, fmt.Errorf("%s is %.64q: want no control characters", name.what, name.is))
		}
	}
	if p.Amount == 0 {
		errs = append(errs, errors.New("amount is missing or 0"))
	}
	if !currency.MatchString(p.Currency) {
		errs = append(errs, fmt.Errorf("currency is %.16q: want three capital letters", p.Currency))
	}
	return errors.Join(errs...)
}

// bookkeeper books payments.
type bookkeeper struct {
	ledger     Ledger
	events     Publishing
	simulate   bool
	simulation *simulation
}

// book adds the amount to the account's balance on every call. The engine ensures that it has its effect
// once.
func (b *bookkeeper) book(ctx context.Context, p Payment, _ msk.Record) (Receipt, error) {
	if err := p.validate(); err != nil {
		return Receipt{}, idem.Permanent(fmt.Errorf("payment %.64q can't be booked: %w", p.PaymentID, err))
	}
	if b.simulate {
		if err := b.simulation.run(ctx, p); err != nil {
			return Receipt{}, err
		}
	}
	balance, err := b.ledger.Add(ctx, p.Account, p.Currency, p.Amount)
	if err != nil {
		return Receipt{}, fmt.Errorf("booking payment %q: %w", p.PaymentID, err)
	}
	if err := b.events.publish(ctx, &p); err != nil {
		return Receipt{}, fmt.Errorf("publishing that payment %q is booked: %w", p.PaymentID, err)
	}
	return Receipt{PaymentID: p.PaymentID, Account: p.Account, Balance: balance, Currency: p.Currency}, nil
}
