package dynamofake

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzExpression checks that no expression makes the parser, the binding or the evaluation panic, and that
// accepted expressions can be evaluated.
func FuzzExpression(f *testing.F) {
	for _, seed := range []string{
		"attribute_not_exists(#a) OR (#b = :n AND NOT begins_with(c, :s))", "a BETWEEN :n AND :m",
		"a IN (:n, :s, b)",
		"SET #a = if_not_exists(#b, :n) + :m, c = d REMOVE e ADD f :n", "SET a = (b) - (:n)", "((a = :n))",
		"# : $ é \x00 < > <= >= <> (",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, place := range []string{conditionExpression, updateExpression} {
			e, err := parseExpression(place, text)
			if err != nil {
				continue
			}
			b, err := e.bind(allPlaceholders(e))
			if err != nil {
				continue
			}
			for _, it := range []item{nil, fuzzItem()} {
				if place == conditionExpression {
					b.holds(it)
				} else if updated, err := b.apply(it); err == nil {
					for i := 1; i < len(updated); i++ {
						if updated[i-1].name >= updated[i].name {
							t.Errorf("%q leaves the names out of order: %q, %q", text, updated[i-1].name,
								updated[i].name)
						}
					}
				}
			}
		}
	})
}

func fuzzItem() item {
	return item{{"a", value{kind: kindN, text: "5"}}, {"b", value{kind: kindN, text: "7"}},
		{"c", value{kind: kindS, text: "text"}}}
}

// allPlaceholders returns names and values for all placeholders of an expression.
func allPlaceholders(e *expression) *substitutions {
	s := new(substitutions)
	for _, path := range e.paths {
		s.names = append(s.names, substitution[string]{placeholder: path,
			meaning: strings.TrimPrefix(path, "#")})
	}
	for _, placeholder := range e.values {
		v := value{kind: kindN, text: "1"}
		if strings.HasPrefix(placeholder, ":s") {
			v = value{kind: kindS, text: "te"}
		}
		s.values = append(s.values, substitution[value]{placeholder: placeholder, meaning: v})
	}
	return s
}

// FuzzRequest checks that the answer to every body is JSON and not an internal error.
func FuzzRequest(f *testing.F) {
	operations := []string{"PutItem", "UpdateItem", "DeleteItem", "GetItem", "Scan", "TransactWriteItems",
		"CreateTable",
		"DescribeTable", "DeleteTable", "ListTables", "UpdateTimeToLive", "DescribeTimeToLive"}
	for _, seed := range []string{
		`{"TableName":"table","Item":{"k":{"S":"a"},"n":{"N":"1"},"l":{"L":[{"NULL":true}]},"m":{"M":{"x":{"BOOL":false}}}}}`,
		`{"TableName":"table","Item":{"k":{"S":"a\u00e9\n"},"b":{"B":"AQI="},"s":{"SS":["a"]},"ns":{"NS":["1"]},"bs":{"BS":["AQ=="]}}}`,
		`{"TableName":"table","Key":{"k":{"S":"a"}},"UpdateExpression":"SET #a = :v","ExpressionAttributeNames":{"#a":"a"},` +
			`"ExpressionAttributeValues":{":v":{"N":"1"}},"ReturnValues":"ALL_NEW"}`,
		`{"TableName":"table","Limit":1,"FilterExpression":"attribute_exists(k)","ExclusiveStartKey":{"k":{"S":"a"}}}`,
		`{"TransactItems":[{"Put":{"TableName":"table","Item":{"k":{"S":"b"}}}}],"ClientRequestToken":"t"}`,
		`{"TableName":"other","KeySchema":[{"AttributeName":"k","KeyType":"HASH"}],"BillingMode":"PAY_PER_REQUEST",` +
			`"AttributeDefinitions":[{"AttributeName":"k","AttributeType":"S"}]}`,
	} {
		for i := range operations {
			f.Add(uint8(i), seed)
		}
	}
	f.Fuzz(func(t *testing.T, operation uint8, body string) {
		server, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := server.CreateTable(Table{Name: "table", HashKey: "k"}); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second meets what the first stored
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
			r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operations[int(operation)%len(operations)])
			w := httptest.NewRecorder()
			server.ServeHTTP(w, r)
			if w.Code >= http.StatusInternalServerError || !json.Valid(w.Body.Bytes()) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
	})
}

// FuzzItem checks that an accepted item is JSON and is returned unchanged.
func FuzzItem(f *testing.F) {
	for _, seed := range []string{
		`{"a":{"S":"\"\\\u2028é😀"},"b":{"N":"-1.50e3"}}`, `{"a":{"M":{"b":{"L":[{"SS":["b","a"]}]}}}}`,
		"{\"a\":{\"S\":\"\xff\"}}",
		`{"a":{"B":"AQI="},"b":{"BS":["AQ==","AA=="]},"c":{"BOOL":true},"d":{"NULL":true}}`, ` { } `,
		`{"a":{"S":"\ud800"}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := jsonReader{text: text}
		it := r.item()
		if r.end() != nil {
			return
		}
		if !json.Valid([]byte(text)) {
			t.Errorf("accepted %q, which is not JSON", text)
		}
		out := string(appendItem(nil, it))
		again := jsonReader{text: out}
		same := again.item()
		if err := again.end(); err != nil || !json.Valid([]byte(out)) || !utf8.ValidString(out) {
			t.Fatalf("%q comes out as %q: %v", text, out, err)
		}
		whole, back := value{kind: kindM, members: it}, value{kind: kindM, members: same}
		if !whole.equal(&back) || it.size() != same.size() {
			t.Errorf("%q comes out as %q", text, out)
		}
	})
}
