package main

import "fmt"

const paymentsTopic = "payments"

// payment is a payment of the example handler, which adds an amount, in minor units, to an account.
type payment struct {
	key      string // idempotency key
	id       string
	account  string
	amount   int64
	simulate string // the requested failure, see the README
	note     string // padding, which the handler ignores
}

// pay is a payment whose idempotency key is its own ID.
func pay(id string, amount int64) payment {
	return payment{key: id, id: id, account: "acc-1", amount: amount}
}

func (p payment) to(account string) payment       { p.account = account; return p }
func (p payment) as(key string) payment           { p.key = key; return p }
func (p payment) simulating(what string) payment  { p.simulate = what; return p }
func (p payment) withNote(padding string) payment { p.note = padding; return p }

// value is the record's value before base64. Fields without content are left out.
func (p payment) value() string {
	v := fmt.Sprintf(`{"paymentId":%q,"account":%q,"amount":%d,"currency":"EUR"`, p.id, p.account, p.amount)
	if p.simulate != "" {
		v += fmt.Sprintf(`,"simulate":%q`, p.simulate)
	}
	if p.note != "" {
		v += fmt.Sprintf(`,"note":%q`, p.note)
	}
	return v + "}"
}

// at is the record that carries the payment, with the account as Kafka record key.
func (p payment) at(partition int32, offset int64) record {
	return record{
		Topic:         paymentsTopic,
		Partition:     partition,
		Offset:        offset,
		Timestamp:     firstTimestamp + 1000*offset,
		TimestampType: createTime,
		Key:           encoded(p.account),
		Value:         encoded(p.value()),
		Headers:       headers(idempotencyKey(p.key)),
	}
}
