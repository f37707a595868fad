package simulation_test

const (
	laneFile     = "idem/schedule/lane.go"
	keysFile     = "idem/schedule/keys.go"
	claimsFile   = "idem/schedule/claims.go"
	callsFile    = "idem/schedule/calls.go"
	concludeFile = "idem/schedule/conclude.go"
	spanFile     = "idem/schedule/ranges.go"
	batchFile    = "idem/schedule/run.go"
	bulkFile     = "idem/schedule/bulk.go"
	itemFile     = "idem/schedule/item.go"
	messageFile  = "kafka/message.go"
	letterFile   = "kafka/deadletter.go"
	memberFile   = "kafka/consumer/member.go"
	boundsFile   = "kafka/consumer/bounds.go"
	latestFile   = "kafka/consumer/positions.go"
)

// defectsOfBatches are those of the scheduler of a batch, and of bulk handlers.
var defectsOfBatches = []defect{
	{
		name:   "a dead process's claims are taken over beside other handlers",
		undoes: "rule 7",
		shows:  "innocent records are charged attempts for one that kills its process",
		test:   "lambda/msk TestTakeOverRunsAlone",
		changes: []replacement{
			{callsFile, "!calls.bulk && calls.running == 0 &&", "!calls.bulk &&"},
			{callsFile, "len(m.calls.suspects) == 1 && !m.bulk()", "len(m.calls.suspects) < 1 && !m.bulk()"},
			{concludeFile, "m.calls.alone = false", "m.calls.alone = m.calls.alone && m.calls.running > 0"},
		},
	}, {
		name:    "a lane goes on behind a record that is not settled",
		undoes:  "order",
		shows:   "a payment is handled before an earlier one of its lane",
		test:    "lambda/msk TestLaneStopsAtItsFirstUnsettledRecord",
		changes: []replacement{{concludeFile, "\t\tl.end(it)\n\t\tl.stop()\n", "\t\tl.end(it)\n"}},
	}, {
		name:   "a lane keeps the claims of records that it does not begin",
		undoes: "rule 8",
		shows:  "records wait until a lease is over, and their attempts grow",
		test:   "lambda/msk TestClaimsAfterAFailureAreReleased",
		changes: []replacement{{laneFile, "it.removed = true",
			"it.removed, it.answer.state = true, store.ClaimUnknown"}},
	}, {
		name:   "a delivery before the delay has passed sends two claims",
		undoes: "66458bc",
		shows:  "two claims of a key by one delivery",
		test:   "idem/schedule TestDeliveryBeforeTheDelayHasPassed",
		not:    "requests are not counted",
		changes: []replacement{{
			claimsFile,
			"it.answer.state == store.ClaimInFlight && !it.answer.delayed):",
			"it.answer.state == store.ClaimInFlight):",
		}},
	}, {
		name:   "a record with another value shares the outcome of the one with its key",
		undoes: "rule 6",
		shows:  "a record with another value has no dead letter",
		test:   "lambda/msk TestAnotherFingerprintInTheBatchIsProcessedAfterwards",
		changes: []replacement{{
			keysFile,
			"return request{fingerprint: t.Fingerprint, redrive: t.RedriveToken}",
			"return request{redrive: t.RedriveToken}",
		}},
	}, {
		name:   "a redriven record shares the outcome of the delivery that failed",
		undoes: "rule 10",
		shows:  "a letter that an operator redrives is not handled",
		test:   "lambda/msk TestRedrivenRecordDoesNotShareTheFailure",
		changes: []replacement{{
			keysFile,
			"return request{fingerprint: t.Fingerprint, redrive: t.RedriveToken}",
			"return request{fingerprint: t.Fingerprint}",
		}},
	}, {
		name:   "a failed call of several records counts against each of them",
		undoes: "92b156b",
		shows:  "a payment that does not fail has a dead letter beside one that does",
		test:   "idem/schedule TestBadItemsOfCallsCostThemselvesOnly",
		changes: []replacement{{
			bulkFile,
			"case err != nil && len(parts) > 1 && !idem.IsUnavailable(err):",
			"case err != nil && len(parts) < 0 && !idem.IsUnavailable(err):",
		}},
	}, {
		name:   "a call that took too long counts against each of its records",
		undoes: "92b156b",
		shows:  "a payment that does not fail has a dead letter beside a slow one",
		test:   "idem/schedule TestCallThatReachesItsDeadline",
		changes: []replacement{{
			bulkFile,
			"late && errors.Is(err, context.DeadlineExceeded) {",
			"late && errors.Is(err, context.Canceled) {",
		}},
	}, {
		name:    "a call that says that a dependency is down is repeated for each record",
		undoes:  "92b156b",
		shows:   "more calls of the handler during an outage than tries",
		test:    "idem/schedule TestUnavailableCallIsNotRepeated",
		changes: []replacement{{bulkFile, "len(parts) > 1 && !idem.IsUnavailable(err):", "len(parts) > 1:"}},
	}, {
		name:   "a record that failed is handled together with others",
		undoes: "docs/design.md, claims and leases",
		shows:  "calls that fail as a whole because of a record that had failed before",
		test:   "idem/schedule TestBulkHandlerFailures|TestBadItemsOfCallsCostThemselvesOnly|TestCallThatReachesItsDeadline",
		changes: []replacement{{
			callsFile, "return l.queue[0].answer.failed })",
			"return l.queue[0].answer.failed && l.queue[0].replaced })",
		}},
	}, {
		name:    "what a failed call has enlisted is not discarded",
		undoes:  "5382626",
		shows:   "a payment is booked by a call that failed, or its second call is refused",
		test:    "idem/schedule TestEffectsOfAFailedCallAreDiscarded",
		changes: []replacement{{bulkFile, "store.DiscardEffect(p.begun.Context())", "_, _ = p, store.DiscardEffect"}},
	}, {
		name:    "a call begins before the completions of the one before are answered",
		undoes:  "92b156b",
		shows:   "a process that dies in the call of one record repeats others",
		test:    "idem/schedule TestItemsBeforeAnotherCallAreCompleted",
		changes: []replacement{{bulkFile, "\t\tp.ended.Wait()\n\t}\n}", "\t}\n}"}},
	}, {
		name:   "a bulk handler does not take over the key of a substitute",
		undoes: "38bc12d",
		shows:  "a record that is refused has no dead letter",
		test:   "idem/schedule TestBulkTakesTheKeyOfASubstituteOver",
		changes: []replacement{{
			laneFile,
			"case store.ClaimLeaseOver:\n\t\tif l.machine.late() {",
			"case store.ClaimLeaseOver:\n\t\tif l.machine.late() || l.machine.bulk() && it.replaced {",
		}},
	}, {
		name:   "a bulk handler does not fail open",
		undoes: "38bc12d",
		shows:  "records wait while the store is down",
		test:   "idem/schedule TestBulkFailsOpen",
		changes: []replacement{{itemFile, "it.answer.state == store.Claimed || it.answer.open)",
			"it.answer.state == store.Claimed)"}},
	}, {
		name:   "records of a lease that has no answer are not claimed by key",
		undoes: "38bc12d",
		shows:  "a payment is handled without a claim though the store answers",
		test:   "idem/schedule TestRangeThatFailsOpenClaimsKeys",
		changes: []replacement{{
			rangeFile,
			"if claim.Refuse(err); s.engine.FailsOpen(err) {",
			"if claim.Refuse(err); s.engine.FailsOpen(err) && claim.ByKey {",
		}},
	},
}

// defectsOfStreams are those of the scheduler of a stream.
var defectsOfStreams = []defect{
	{
		name:   "a record whose key is taken over has claims beside it",
		undoes: "rule 7, S7",
		shows:  "innocent records are charged attempts for one that kills its process",
		test:   "idem/schedule TestAllStates",
		not:    "a run has few deaths with claims beside the record that is taken over, and each charges one attempt",
		changes: []replacement{{callsFile, "if m.unclaimAll(); len(m.claims.releases) > 0 {",
			"if len(m.claims.releases) > 0 {"}},
	}, {
		name:   "handlers begin beside one whose key is taken over",
		undoes: "rule 7, S7",
		shows:  "innocent records are charged attempts for one that kills its process",
		test:   "idem/schedule TestAllStates",
		changes: []replacement{{callsFile, "return m.calls.alone || len(m.calls.suspects) > 0",
			"return len(m.calls.suspects) > 0"}},
	}, {
		name:   "a record that is tried again goes behind the later ones of its lane",
		undoes: "S3",
		shows:  "a payment is handled before an earlier one of its lane",
		test:   "idem/schedule TestStreamRetriesAnItemAndBlocksOnlyItsLane",
		changes: []replacement{{
			laneFile,
			"\tif i < 0 {\n\t\ti = len(l.queue)",
			"\tif i < len(l.queue) {\n\t\ti = len(l.queue)",
		}},
	}, {
		name:   "a record with another value shares the outcome of the one in progress",
		undoes: "S5",
		shows:  "a record with another value has no dead letter",
		test:   "idem/schedule TestStreamSharesTheOutcomeOfDuplicates",
		changes: []replacement{
			{laneFile, "case user.returned && user.sharesWith(it):", "case user.returned:"},
			{claimsFile, "case user.lane == l && user.sharesWith(it):", "case user.lane == l:"},
		},
	}, {
		name:   "a lease is released before the handlers of its partition have returned",
		undoes: "rule P7",
		shows:  "two handlers of a payment at the same time",
		test:   "idem/schedule TestStreamReleasesTheLeaseWhenItsHandlersHaveReturned",
		config: "host=process,pollers=3,partitions=3,IDEMSK_CLAIM=partition",
		changes: []replacement{{spanFile, "for _, l := range lanes {",
			"for _, l := range lanes[:0] {"}},
	}, {
		name:    "a stream does not claim a lost lease again",
		undoes:  "rule P7",
		shows:   "records are not settled",
		test:    "idem/schedule TestStreamThatLosesItsLease",
		changes: []replacement{{spanFile, "\ts.shut()\n\ts.hold()\n", "\ts.shut()\n"}},
	}, {
		name:    "a stream does not claim by key while a lease has no answer",
		undoes:  "38bc12d",
		shows:   "records wait though the store answers claims",
		test:    "idem/schedule TestStreamWithoutALease|TestStreamThatFailsOpenStopsWhenTheStoreAnswers",
		not:     onlyWaits,
		changes: []replacement{{spanFile, "s.begin(true)", "s.shut()"}},
	}, {
		name:   "a stream that fails open claims by key though the store answers",
		undoes: "38bc12d",
		shows:  "two handlers of a payment at the same time",
		test:   "idem/schedule TestStreamThatFailsOpenStopsWhenTheStoreAnswers|TestStreamWhoseLeaseIsFoundElsewhereWhileItClaims",
		not:    tooRare,
		changes: []replacement{{spanFile, "m.ended():\n\t\ts.shut()\n",
			"m.ended():\n\t\tif !s.byKey {\n\t\t\ts.shut()\n\t\t}\n"}},
	},
}

// defectsOfRecords are those of records, their letters, and of consumer processes.
var defectsOfRecords = []defect{
	{
		name:   "a record that is identified late stays rejected if its key is that of its place",
		undoes: "docs/design.md, how a record is settled",
		shows:  "the bulk handler is not called for a record, which becomes a dead letter",
		test:   "kafka TestBulkHandlerOfARecordThatIsIdentifiedLater",
		config: "host=process,handler=bulk,keyless=yes,registry=silent,IDEMSK_MISSING_KEY=process",
		changes: []replacement{{concludeFile, "\tif it.replaced {\n",
			"\tif it.replaced || it.Task.Key == it.claim.Task.Key {\n"}},
	}, {
		name:   "a record without a key is handled without a claim",
		undoes: "docs/design.md, keys: IDEMSK_MISSING_KEY=process",
		shows:  "a record without a key is handled again when it is delivered again",
		test:   "lambda/msk TestRecordWithoutKeyCanBeProcessed",
		changes: []replacement{{
			messageFile,
			"\t\treturn nil\n\t}\n\tif err != nil {\n\t\treturn err",
			"\t\tm.Unprotected = true\n\t\treturn nil\n\t}\n\tif err != nil {\n\t\treturn err",
		}},
	}, {
		name:   "a record that is refused takes the outcome of its key",
		undoes: "docs/design.md, how a record is settled",
		shows:  "a record with another value has no dead letter",
		test:   "lambda/msk TestMismatchIsDeadLetteredAndLeavesTheKeyUnchanged",
		changes: []replacement{{
			messageFile,
			"t.Key, t.Fingerprint, t.Rejected = m.processor.storedPlace(m.Record), store.Fingerprint{}, true",
			"t.Fingerprint, t.Rejected = store.Fingerprint{}, true",
		}},
	}, {
		name:   "records with an empty key are not in order",
		undoes: "ef9f68b",
		shows:  "a record with an empty Kafka key is handled before an earlier one",
		test:   "lambda/msk TestEmptyKafkaKeyIsAKey",
		not:    "no record has an empty key of Kafka",
		changes: []replacement{
			{"kafka/processor.go", "ok && key != nil {", "ok && len(key) > 0 {"},
			{"kafka/processor.go", "\t\tif key != nil {", "\t\tif len(key) > 0 {"},
		},
	}, {
		name:   "records of a stream with an empty key are not in order",
		undoes: "ef9f68b",
		shows:  "a record with an empty Kafka key is handled before an earlier one",
		test:   "kafka TestStreamOrder",
		not:    "no record has an empty key of Kafka",
		changes: []replacement{{
			"kafka/stream.go",
			"s.processor.cfg.Order == ByKey && r.Key != nil:",
			"s.processor.cfg.Order == ByKey && len(r.Key) > 0:",
		}},
	}, {
		name:   "a partial answer does not name the records behind the first that is not settled",
		undoes: "docs/design.md, how a record is settled",
		shows:  "an answer leaves out a record behind one that it names",
		test:   "lambda/msk TestRecordsAfterTheFirstFailureOfAPartitionAreReported",
		not:    "the event source delivers all records from the first one that an answer names",
		changes: []replacement{{"lambda/msk/answer.go", "\t\t\tif blocked {\n",
			"\t\t\tif blocked && !m.Settled() {\n"}},
	}, {
		name:   "a partial answer does not name the first record that is not settled",
		undoes: "docs/design.md, how a record is settled",
		shows:  "a record is done and its payment not booked",
		test:   "lambda/msk TestRecordsAfterTheFirstFailureOfAPartitionAreReported",
		changes: []replacement{{
			"lambda/msk/answer.go",
			"\t\t\tif blocked {\n",
			"\t\t\tif blocked && batchErr.Reported > 0 {\n",
		}},
	}, {
		name:   "an answer says of each record that it was executed",
		undoes: "53a88eb",
		shows:  "a redrive to the function deletes a letter whose record was not handled",
		test:   "lambda/msk TestEventAsksForOutcomes",
		changes: []replacement{{"lambda/msk/answer.go", "RecordOutcome{place(m), m.Outcome.Kind.String()}",
			"RecordOutcome{place(m), \"Executed\"}"}},
	}, {
		name:    "a dead letter has no token",
		undoes:  "rule 10",
		shows:   "a key is FAILED, and its dead letter has another token",
		test:    "lambda/msk TestDeadLetterContainsTheWholeRecord",
		changes: []replacement{{letterFile, "Token: b.Attempt.Token, Attempts:", "Attempts:"}},
	}, {
		name:   "letters of two failures have one ID",
		undoes: "letter identity",
		shows:  "a queue that deduplicates drops the second letter",
		test:   "kafka/deadletter/sqs TestFIFOQueueKeepsTheLettersOfAllFailures",
		not:    "the queue of a run does not deduplicate",
		changes: []replacement{{
			letterFile,
			`"%q %q %s %d %d", l.Cluster, l.Function, l.Source(), l.Token,`,
			`"%q %q %s %d %d", l.Cluster, l.Function, l.Source(), 0*l.Token, 0*`,
		}},
	}, {
		name:   "letters of one record have the time of its last failure in seconds",
		undoes: "letter identity",
		shows:  "a queue that deduplicates drops the second letter of a record without a key",
		test:   "lambda/msk TestEachFailureHasItsOwnTime",
		not:    "the queue of a run does not deduplicate",
		changes: []replacement{{letterFile, "time.Now().UTC().Round(0)",
			"time.Now().UTC().Truncate(time.Second)"}},
	}, {
		name:   "a redriven record with a token that its key never had is dropped",
		undoes: "rule 10",
		shows:  "a record is done without a letter or a booking",
		test:   "lambda/msk TestUnknownTokenDoesNotRedrive",
		changes: []replacement{{
			"kafka/redrive.go",
			"errors.As(out.Err, &failed) && failed.Token < redrive:",
			"errors.As(out.Err, &failed) && failed.Token < -redrive:",
		}},
	}, {
		name:   "the watermark passes a record that is not settled",
		undoes: "docs/consumer.md",
		shows:  "an offset is committed and its payment not booked",
		test:   "kafka/consumer TestWindowAgreesWithTheNaiveModel",
		changes: []replacement{{
			"kafka/consumer/window.go",
			"\tw.entries[i].settled = true\n\tif i == 0 {",
			"\tw.entries[i].settled, w.entries[0].settled = true, true\n\tif i >= 0 {",
		}},
	}, {
		name:   "the windows of partitions have no sum",
		undoes: "3244fe3",
		shows:  "a process has more records than its bound",
		test:   "test/kafka TestWindowsOfAllPartitionsKeepToTheBounds",
		not:    "memory is not measured",
		changes: []replacement{
			{boundsFile, "min(m.cfg.PartitionRecords, m.cfg.MaxRecords/n)", "m.cfg.PartitionRecords"},
			{
				"kafka/consumer/bounds.go",
				"min(m.cfg.PartitionBytes, m.cfg.MaxBytes/int64(n))",
				"max(m.cfg.PartitionBytes, m.cfg.MaxBytes/int64(n))",
			},
			{boundsFile, "\tif !m.crowded {\n\t\treturn\n\t}\n\trest",
				"\tif !m.crowded || m.joined {\n\t\treturn\n\t}\n\trest"},
		},
	}, {
		name:    "the records of a revoked partition go on",
		undoes:  "docs/consumer.md",
		shows:   "a payment is handled by a process that lost its partition",
		test:    "test/kafka TestRevokedPartitionIsCommitted|TestHandlerThatOutlastsItsPartition|TestMembersJoinAndLeaveInTheMiddleOfWork",
		changes: []replacement{{memberFile, "\t\tm.finish(ctx, revoked)\n", "\t\t_ = ctx\n"}},
	}, {
		name:    "records that are not prepared are handled after their partition was revoked",
		undoes:  "docs/consumer.md",
		shows:   "a payment is handled by a process that lost its partition",
		test:    "kafka TestStreamRevokesRecordsThatAreNotPrepared",
		config:  "host=process,pollers=2,partitions=3,registry=silent",
		changes: []replacement{{"kafka/stream.go", "\ts.preparing.revoke(prefix)\n", ""}},
	}, {
		name:   "a partition that was lost is committed",
		undoes: "docs/consumer.md",
		shows:  "a committed offset goes back",
		test:   "test/kafka TestLostPartitionsCommitNothing",
		not:    "a broker of a run refuses commits of a member that the group has lost",
		changes: []replacement{{
			memberFile, "\tm.remove(client, lost)",
			"\tm.send(ctx, client, m.uncommitted(time.Now(), lost))\n\tm.remove(client, lost)",
		}},
	}, {
		name:   "a commit that is applied late is not repaired",
		undoes: "docs/consumer.md",
		shows:  "a committed offset goes back, and stays there",
		test:   "test/kafka TestLateCommitIsRepaired",
		not:    "a run does not delay requests to brokers",
		changes: []replacement{{"kafka/consumer/commit.go",
			"mark.Offset == p.confirmed && !now.Before(p.doubt)", "mark.Offset == p.confirmed"}},
	}, {
		name:   "with latest the position at which reading begins is not committed",
		undoes: "f726534",
		shows:  "a record is never handled",
		test:   "test/kafka TestLatestLosesNoRecordOfARestart",
		changes: []replacement{{latestFile, "m.commitPositions(ctx, fixed, offsets); err != nil",
			"error(nil); err != nil"}},
	}, {
		name:   "with latest a new partition is read from its end",
		undoes: "f726534",
		shows:  "a record is never handled",
		test:   "test/kafka TestLatestReadsANewPartitionFromItsStart",
		changes: []replacement{{latestFile, "at.partition >= m.known[at.topic]",
			"at.partition >= 1<<20+m.known[at.topic]"}},
	}, {
		name:   "with latest the position in a new partition is not committed",
		undoes: "38243df",
		shows:  "a record is never handled",
		test:   "test/kafka TestLatestReadsANewPartitionFromItsStart",
		changes: []replacement{{latestFile, "\t\t\tfixed[at] = p\n", "\t\t\tif fixed[at] = p; at.partition >= m.known[at.topic] {\n" +
			"\t\t\t\toffsets[at.topic][at.partition] = kgo.NewOffset().AtStart()\n\t\t\t\tdelete(fixed, at)\n\t\t\t}\n"}},
	},
}
