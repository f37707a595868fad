package dynamofake_test

import (
	"encoding/json"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

// call sends a request to the handler without HTTP and without the checks of the SDK.
func call(t testing.TB, handler http.Handler, operation, body string) (status int, code, message string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if sum := strconv.FormatUint(uint64(crc32.ChecksumIEEE(w.Body.Bytes())),
		10); w.Header().Get("X-Amz-Crc32") != sum {
		t.Errorf("%s: X-Amz-Crc32 is %q, want %s", operation, w.Header().Get("X-Amz-Crc32"), sum)
	}
	var answer struct {
		Type    string `json:"__type"`
		Message string `json:"message"` // or Message
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s %.200s: the answer is no JSON: %v\n%s", operation, body, err, w.Body)
	}
	_, code, _ = strings.Cut(answer.Type, "#")
	return w.Code, code, answer.Message
}

// TestRefused checks that features of DynamoDB that the fake does not implement are refused by name.
func TestRefused(t *testing.T) {
	const (
		put    = `{"TableName":"table","Item":{"k":{"S":"a"}},`
		update = `{"TableName":"table","Key":{"k":{"S":"a"}},`
		one    = `,"ExpressionAttributeValues":{":v":{"N":"1"}}}`
	)
	server := unstarted(t, dynamofake.Config{})
	for _, c := range []struct{ operation, body, named string }{
		{"PutItem", put + `"Expected":{}}`, "Expected of PutItem"},
		{"PutItem", put + `"ConditionalOperator":"AND"}`, "ConditionalOperator"},
		{"PutItem", put + `"ReturnItemCollectionMetrics":"SIZE"}`, "ReturnItemCollectionMetrics"},
		{"PutItem", put + `"ReturnConsumedCapacity":"INDEXES"}`, "INDEXES"},
		{"PutItem", put + `"UpdateExpression":"REMOVE a"}`, "UpdateExpression of PutItem"},
		{"PutItem", put + `"Key":{}}`, "Key of PutItem"},
		{"UpdateItem", update + `"AttributeUpdates":{}}`, "AttributeUpdates of UpdateItem"},
		{"DeleteItem", update + `"Item":{}}`, "Item of DeleteItem"},
		{"GetItem", update + `"ProjectionExpression":"a"}`, "ProjectionExpression of GetItem"},
		{"Scan", `{"TableName":"table","IndexName":"i"}`, "IndexName of Scan"},
		{"Scan", `{"TableName":"table","Select":"COUNT"}`, "Select of Scan"},
		{"Scan", `{"TableName":"table","TotalSegments":2,"Segment":0}`, "TotalSegments of Scan"},
		{"PutItem", put + `"ConditionExpression":"m.x = :v"` + one, "nested document paths: m"},
		{"PutItem", put + `"ConditionExpression":"l[0] = :v"` + one, "nested document paths: l"},
		{"PutItem", put + `"ConditionExpression":"size(a) = :v"` + one, "function size"},
		{"PutItem", put + `"ConditionExpression":"contains(a, :v)"` + one, "function contains"},
		{"PutItem", put + `"ConditionExpression":"attribute_type(a, :v)"` + one, "function attribute_type"},
		{"UpdateItem", update + `"UpdateExpression":"SET m.x = :v"` + one, "nested document paths: m"},
		{"UpdateItem", update + `"UpdateExpression":"SET l = list_append(l, :v)"` + one,
			"function list_append"},
		{"UpdateItem", update + `"UpdateExpression":"DELETE s :v"` + one, "DELETE"},
		{"UpdateItem", update + `"UpdateExpression":"ADD s :v","ExpressionAttributeValues":{":v":{"SS":["a"]}}}`, "ADD of a set"},
		{"TransactWriteItems", `{"TransactItems":[{"Get":{}}]}`, "Get in a transaction"},
		{"TransactWriteItems", `{"TransactItems":[{"Put":` + put + `"ReturnValues":"NONE"}}]}`,
			"ReturnValues of PutItem"},
		{"TransactWriteItems", `{"ReturnItemCollectionMetrics":"SIZE"}`, "ReturnItemCollectionMetrics"},
		{"CreateTable", `{"TableName":"other","GlobalSecondaryIndexes":[]}`, "GlobalSecondaryIndexes"},
		{"CreateTable", `{"TableName":"other","KeySchema":[{"AttributeName":"k","KeyType":"HASH"},` +
			`{"AttributeName":"r","KeyType":"RANGE"}]}`, "sort key"},
		{"CreateTable", `{"TableName":"other","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"k","KeyType":"HASH"}],` +
			`"AttributeDefinitions":[{"AttributeName":"k","AttributeType":"N"}]}`, "hash key of type N"},
	} {
		status, code, message := call(t, server, c.operation, c.body)
		if status != http.StatusBadRequest || code != "ValidationException" ||
			!strings.HasPrefix(message, "dynamofake does not support ") ||
			!strings.Contains(message, c.named) {
			t.Errorf("%s %s: %d %s %q, want it to name %q", c.operation, c.body, status, code, message,
				c.named)
		}
	}
	_, code, message := call(t, server, "BatchWriteItem", "{}")
	if code != "UnknownOperationException" || !strings.Contains(message, "BatchWriteItem") {
		t.Errorf("BatchWriteItem: %s %q", code, message)
	}
}

func TestMalformed(t *testing.T) {
	server := unstarted(t, dynamofake.Config{NoTable: ": create it"})
	const item = `{"TableName":"table","Item":`
	for _, c := range []struct{ operation, body, code, named string }{
		{"PutItem", ``, "SerializationException", "byte 0"},
		{"PutItem", `{`, "SerializationException", "byte 1"},
		{"PutItem", `[]`, "SerializationException", "byte 0"},
		{"PutItem", `{"TableName":"table"} x`, "SerializationException", "more follows"},
		{"PutItem", `{"TableName":"table",}`, "SerializationException", "byte 21"},
		{"PutItem", `{"TableName":1}`, "SerializationException", "byte 13"},
		{"PutItem", `{"TableName":"tab`, "SerializationException", "unfinished string"},
		{"PutItem", "{\"TableName\":\"a\nb\"}", "SerializationException", "control character"},
		{"PutItem", `{"TableName":"\q"}`, "SerializationException", "invalid character"},
		{"PutItem", item + `{"k":{"S":"a"},"k":{"S":"b"}}}`, "SerializationException",
			`duplicate member "k"`},
		{"PutItem", item + `{"k":{"B":"%"}}}`, "SerializationException", "base64"},
		{"PutItem", item + `{"k":{"BOOL":1}}}`, "SerializationException", "true or false"},
		{"PutItem", item + `{"k":{"S":"a"},"v":{"S":"a","N":"1"}}}`, "ValidationException",
			"more than one datatypes"},
		{"PutItem", item + `{"k":{"S":"a"},"v":{}}}`, "ValidationException", "AttributeValue is empty"},
		{"PutItem", item + `{"k":{"S":"a"},"v":null}}`, "ValidationException", "AttributeValue is empty"},
		{"PutItem", item + `{"k":{"S":"a"},"v":{"S":null}}}`, "ValidationException",
			"AttributeValue is empty"},
		{"PutItem", item + `{"k":{"S":"a"},"v":{"X":"a"}}}`, "ValidationException", `datatype "X"`},
		{"PutItem", `{"TableName":"table"}`, "ValidationException", "'item'"},
		{"PutItem", `{"Item":{"k":{"S":"a"}}}`, "ValidationException", "'tableName'"},
		{"PutItem", `{"TableName":"table","Item":{"k":{"S":"a"}},"ReturnValues":"ALL_NEW"}`,
			"ValidationException", "ALL_OLD or NONE"},
		{"PutItem", `{"TableName":"table","Item":{"k":{"S":"a"}},"ReturnValues":"SOME"}`,
			"ValidationException", "'SOME' at 'returnValues'"},
		{"UpdateItem", `{"TableName":"table"}`, "ValidationException", "'key'"},
		{"GetItem", `{"TableName":"table"}`, "ValidationException", "'key'"},
		{"GetItem", `{"TableName":"none","Key":{"k":{"S":"a"}}}`, "ResourceNotFoundException",
			"Table: none not found: create it"},
		{"Scan", `{"TableName":"table","Limit":0}`, "ValidationException", "Limit"},
		{"Scan", `{"TableName":"table","Limit":"1"}`, "SerializationException", "integer"},
		{"Scan", `{"TableName":"table","ExclusiveStartKey":{"x":{"S":"a"}}}`, "ValidationException",
			"schema"},
		{"TransactWriteItems", `{}`, "ValidationException", "transactItems"},
		{"TransactWriteItems", `{"TransactItems":[{}]}`, "ValidationException", "one of"},
		{"CreateTable", `{`, "SerializationException", "JSON"},
		{"UpdateTimeToLive", `{"TableName":"table"}`, "ValidationException", "timeToLiveSpecification"},
		{"DescribeTable", `{}`, "ValidationException", "'tableName'"},
	} {
		status, code, message := call(t, server, c.operation, c.body)
		if status != http.StatusBadRequest || code != c.code || !strings.Contains(message, c.named) {
			t.Errorf("%s %s: %d %s %q, want %s with %q", c.operation, c.body, status, code, message, c.code,
				c.named)
		}
	}
}

// TestLimits checks each limit from both sides. The messages are those of DynamoDB Local.
func TestLimits(t *testing.T) {
	const (
		size    = "Item size has exceeded the maximum allowed size"
		updated = "Item size to update has exceeded the maximum allowed size"
		room    = 400<<10 - len("k"+"a"+"v")
	)
	condition := func(expression, substitutions string) string {
		return `{"TableName":"table","Item":{"k":{"S":"a"}},"ConditionExpression":"` + expression + `"` +
			substitutions + `}`
	}
	values := func(placeholder string) string {
		return `,"ExpressionAttributeValues":{"` + placeholder + `":{"N":"1"}}`
	}
	names := func(placeholder, name string) string {
		return `,"ExpressionAttributeNames":{"` + placeholder + `":"` + name + `"}`
	}
	list := func(n int) string { return "k IN (:v" + strings.Repeat(",:v", n-1) + ")" }
	transaction := func(actions ...string) string {
		return `{"TransactItems":[` + strings.Join(actions, ",") +
			`]}`
	}
	action := func(k string, length int) string {
		return `{"Put":{"TableName":"table","Item":{"k":{"S":"` + k + `"},"v":{"S":"` +
			strings.Repeat("x", length) + `"}}}}`
	}
	actions := func(n, length int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = action(strconv.Itoa(100+i), length)
		}
		return transaction(all...)
	}
	server := unstarted(t, dynamofake.Config{})
	for _, c := range []struct{ operation, body, message string }{
		{"PutItem", `{"TableName":"table","Item":{"k":{"S":"` + strings.Repeat("x", 2048) + `"}}}`, ""},
		{"PutItem", `{"TableName":"table","Item":{"k":{"S":"` + strings.Repeat("x", 2049) + `"}}}`,
			"One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes"},
		{"PutItem", `{"TableName":"table","Item":{"k":{"S":""}}}`,
			"One or more parameter values are not valid. " +
				"The AttributeValue for a key attribute cannot contain an empty string value. Key: k"},
		{"PutItem", `{"TableName":"table","Item":{"v":{"S":""}}}`,
			"One or more parameter values were invalid: Missing the key k in the item"},
		{"PutItem", `{"TableName":"table","Item":{"k":{"N":"1"}}}`,
			"One or more parameter values were invalid: Type mismatch for key k expected: S actual: N"},
		{"GetItem", `{"TableName":"table","Key":{"k":{"N":"1"}}}`,
			"The provided key element does not match the schema"},
		{"PutItem", `{"TableName":"table","Item":{"k":{"S":"a"},"v":{"S":"` + strings.Repeat("x", room+1) +
			`"}}}`, size},
		{"PutItem", `{"TableName":"table","Item":{"k":{"S":"a"},"v":{"S":"` + strings.Repeat("x", room) +
			`"}}}`, ""},
		{"UpdateItem", `{"TableName":"table","Key":{"k":{"S":"a"}},"UpdateExpression":"SET z = :v"` +
			values(":v") + `}`, updated},
		{"PutItem", `{"TableName":"table","Item":{"k":{"S":"a"},"v":` + strings.Repeat(`{"L":[`, 31) +
			`{"S":"a"}` + strings.Repeat(`]}`, 31) + `}}`, ""},
		{"PutItem", `{"TableName":"table","Item":{"k":{"S":"a"},"v":` + strings.Repeat(`{"L":[`, 32) +
			`{"S":"a"}` + strings.Repeat(`]}`, 32) + `}}`,
			"Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit"},
		{"PutItem", condition("attribute_exists(k)"+strings.Repeat(" ", 4096-19), ""), ""},
		{"PutItem", condition("attribute_exists(k)"+strings.Repeat(" ", 4097-19), ""),
			"Invalid ConditionExpression: Expression size has exceeded the maximum allowed size; expression size: 4097"},
		{"PutItem", condition(strings.Repeat("NOT ", 298)+"attribute_exists(k)", ""), ""},
		{"PutItem", condition(strings.Repeat("NOT ", 299)+"attribute_exists(k)", ""),
			"The conditional request failed"},
		{"PutItem", condition(strings.Repeat("NOT ", 300)+"attribute_exists(k)", ""),
			"Invalid ConditionExpression: The expression contains too many operators; operator count: 301"},
		{"PutItem", condition(list(100), values(":v")), "The conditional request failed"},
		{"PutItem", condition(list(101), values(":v")), "Invalid ConditionExpression: " +
			"The IN operator is provided with too many operands; number of operands: 101"},
		{"PutItem", condition("", ""), "Invalid ConditionExpression: The expression can not be empty;"},
		{"PutItem", condition("k = :"+strings.Repeat("v", 254), values(":"+strings.Repeat("v", 254))),
			"The conditional request failed"},
		{"PutItem", condition("k = :"+strings.Repeat("v", 255), values(":"+strings.Repeat("v", 255))),
			"ExpressionAttributeValues contains invalid key: The expression attribute map contains a key that is too long;"},
		{"PutItem", condition("k = :v", values("v")),
			`ExpressionAttributeValues contains invalid key: Syntax error; key: "v"`},
		{"PutItem", condition("k = :v", `,"ExpressionAttributeValues":{}`),
			"ExpressionAttributeValues must not be empty"},
		{"PutItem", condition("k = :v", `,"ExpressionAttributeValues":{":v":{"N":"x"}}`),
			"ExpressionAttributeValues contains invalid value: A value provided cannot be converted into a number for key :v"},
		{"PutItem", condition("k = :v", values(":v")+names("#a", "a")),
			"Value provided in ExpressionAttributeNames unused in expressions: keys: {#a}"},
		{"PutItem", condition("attribute_exists(k)",
			`,"ExpressionAttributeValues":{":y":{"N":"1"},":x":{"N":"1"}}`),
			"Value provided in ExpressionAttributeValues unused in expressions: keys: {:x, :y}"},
		{"PutItem", condition("attribute_exists(#a)", names("#a", "")),
			"ExpressionAttributeNames contains invalid value: Empty attribute name for key #a"},
		{"PutItem", condition("attribute_exists(#a)", names("#a", strings.Repeat("a", 65536))),
			"ExpressionAttributeNames contains " +
				"invalid value: Attribute name is too large, must be less than 65536 bytes for key #a"},
		{"PutItem", condition("attribute_exists(#a)", names("#", "a")),
			`ExpressionAttributeNames contains invalid key: Syntax error; key: "#"`},
		{"PutItem", condition("attribute_exists(#a)", `,"ExpressionAttributeNames":{}`),
			"ExpressionAttributeNames must not be empty"},
		{"PutItem", `{"TableName":"table","Item":{"k":{"S":"a"}}` + names("#a", "a") + `}`,
			"ExpressionAttributeNames can only be specified when using expressions"},
		{"DeleteItem", `{"TableName":"table","Key":{"k":{"S":"a"}}` + values(":v") + `}`,
			"ExpressionAttributeValues can only be specified when using expressions: ConditionExpression is null"},
		{"UpdateItem", `{"TableName":"table","Key":{"k":{"S":"a"}}` + values(":v") + `}`,
			"ExpressionAttributeValues can only be specified when using expressions: UpdateExpression and ConditionExpression are null"},
		{"TransactWriteItems", actions(100, 1), ""},
		{"TransactWriteItems", actions(101, 1),
			"1 validation error detected: Value of 101 members at 'transactItems' " +
				"failed to satisfy constraint: Member must have length between 1 and 100"},
		{"TransactWriteItems", actions(16, 256<<10-5), ""},
		{"TransactWriteItems", actions(16, 256<<10-4),
			"Transaction payload size cannot exceed 4MB. Payload Size: 4194320"},
		{"TransactWriteItems", transaction(action("a", 1), action("a", 1)),
			"Transaction request cannot include multiple operations on one item"},
		{"TransactWriteItems", `{"ClientRequestToken":"` + strings.Repeat("t", 37) + `"}`,
			"1 validation error detected: Value '" +
				strings.Repeat("t", 37) +
				"' at 'clientRequestToken' failed to satisfy constraint: Member must have length less than or equal to 36"},
	} {
		if _, _, message := call(t, server, c.operation, c.body); message != c.message {
			t.Errorf("%s %.120s\n got: %.300s\nwant: %s", c.operation, c.body, message, c.message)
		}
	}
}

func TestOtherRequests(t *testing.T) {
	server := unstarted(t, dynamofake.Config{})
	for name, r := range map[string]*http.Request{
		"GET":       httptest.NewRequest(http.MethodGet, "/", nil),
		"no target": httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}")),
	} {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "X-Amz-Target") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	status, code, message := call(t, server, "PutItem", strings.Repeat(" ", 16<<20+1))
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(message, "PutItem") {
		t.Errorf("a request over 16 MiB: %d %s %s", status, code, message)
	}
}
