package simulation_test

const (
	bulkFile    = "idem/batch/bulk.go"
	bulkCall    = "idem/batch/bulkcall.go"
	laneFile    = "idem/batch/lane.go"
	streamRange = "idem/batch/streamranges.go"
	messageFile = "kafka/message.go"
	letterFile  = "kafka/deadletter.go"
	memberFile  = "kafka/consumer/member.go"
	latestFile  = "kafka/consumer/latest.go"
)

// defectsOfBatches are those of the scheduler of a batch, and of bulk handlers.
var defectsOfBatches = []defect{
	{
		"a dead process's claims are taken over beside other handlers", "rule 7", "innocent records are charged attempts for one that kills its process", "lambda/msk TestTakeOverRunsAlone|TestRecordOfADeadOwnerRunsAlone",
		[]replacement{
			{"idem/batch/isolate.go", "slots = int64(l.run.scheduler.cfg.Concurrency)", "slots = 1"}, {"idem/batch/isolate.go", "		if alone {\n", "		if alone && slots > 1 {\n"},
		},
	}, {
		"a lane goes on behind a record that is not settled", "order", "a payment is handled before an earlier one of its lane", "lambda/msk TestLaneStopsAtItsFirstUnsettledRecord",
		[]replacement{{laneFile, "	if !out.Kind.Settled() {\n		l.stopped", "	if !out.Kind.Settled() && out.Err == nil {\n		l.stopped"}},
	}, {
		"a lane keeps the claims of records that it does not begin", "rule 8", "records wait until a lease is over, and their attempts grow", "lambda/msk TestClaimsAfterAFailureAreReleased",
		[]replacement{{laneFile, "	defer l.releaseClaims()\n", ""}},
	}, {
		"a delivery before the delay has passed sends two claims", "66458bc", "two claims of a key by one delivery", "idem/batch TestDeliveryBeforeTheDelayHasPassed",
		[]replacement{{"idem/batch/prefetch.go", "claim.Delayed() ||", "claim.Delayed() && it.replaced ||"}},
	}, {
		"a record with another value shares the outcome of the one with its key", "rule 6", "a record with another value has no dead letter", "lambda/msk TestAnotherFingerprintInTheBatchIsProcessedAfterwards",
		[]replacement{{"idem/batch/duplicates.go", "return request{fingerprint: t.Fingerprint, redrive: t.RedriveToken}", "return request{redrive: t.RedriveToken}"}},
	}, {
		"a redriven record shares the outcome of the delivery that failed", "rule 10", "a letter that an operator redrives is not handled", "lambda/msk TestRedrivenRecordDoesNotShareTheFailure",
		[]replacement{{"idem/batch/duplicates.go", "return request{fingerprint: t.Fingerprint, redrive: t.RedriveToken}", "return request{fingerprint: t.Fingerprint}"}},
	}, {
		"a failed call of several records counts against each of them", "92b156b", "a payment that does not fail has a dead letter beside one that does", "idem/batch TestBadItemsOfCallsCostThemselvesOnly",
		[]replacement{{bulkCall, "case err != nil && len(items) > 1 && !idem.IsUnavailable(err):", "case err != nil && len(items) < 0 && !idem.IsUnavailable(err):"}},
	}, {
		"a call that took too long counts against each of its records", "92b156b", "a payment that does not fail has a dead letter beside a slow one", "idem/batch TestCallThatReachesItsDeadline",
		[]replacement{{bulkCall, "if late && errors.Is(r.Err, context.DeadlineExceeded) {", "if late && errors.Is(r.Err, context.Canceled) {"}},
	}, {
		"a call that says that a dependency is down is repeated for each record", "92b156b", "more calls of the handler during an outage than tries", "idem/batch TestUnavailableCallIsNotRepeated",
		[]replacement{{bulkCall, "len(items) > 1 && !idem.IsUnavailable(err):", "len(items) > 1:"}},
	}, {
		"a record that failed is handled together with others", "docs/design.md, claims and leases", "calls that fail as a whole because of a record that had failed before", "idem/batch TestBulkHandlerFailures|TestBadItemsOfCallsCostThemselvesOnly|TestCallThatReachesItsDeadline",
		[]replacement{{bulkFile, "case b.callable(it) && it.claim.FailedBefore():", "case b.callable(it) && it.claim.FailedBefore() && it.replaced:"}},
	}, {
		"what a failed call has enlisted is not discarded", "5382626", "a payment is booked by a call that failed, or its second call is refused", "idem/batch TestEffectsOfAFailedCallAreDiscarded",
		[]replacement{{bulkCall, "idem.DiscardEffect(p.item.ctx)", "_ = p"}},
	}, {
		"a call begins before the completions of the one before are answered", "92b156b", "a process that dies in the call of one record repeats others", "idem/batch TestItemsBeforeAnotherCallAreCompleted",
		[]replacement{{bulkCall, "		<-p.ended\n", ""}},
	}, {
		"a bulk handler does not take over the key of a substitute", "38bc12d", "a record that is refused has no dead letter", "idem/batch TestBulkTakesTheKeyOfASubstituteOver",
		[]replacement{{bulkFile, "		case it.claim.State() == store.Claimed:\n			b.settle(it)\n", ""}},
	}, {
		"a bulk handler does not fail open", "38bc12d", "records wait while the store is down", "idem/batch TestBulkFailsOpen",
		[]replacement{{bulkFile, "return b.scheduler.engine.FailsOpen(it.claim.Err())", "return false"}},
	}, {
		"records of a lease that has no answer are not claimed by key", "38bc12d", "a payment is handled without a claim though the store answers", "idem/batch TestRangeThatFailsOpenClaimsKeys",
		[]replacement{{rangeFile, "if claim.Refuse(err); s.engine.FailsOpen(err) {", "if claim.Refuse(err); s.engine.FailsOpen(err) && claim.ByKey {"}},
	},
}

// defectsOfStreams are those of the scheduler of a stream.
var defectsOfStreams = []defect{
	{
		"a stream takes keys over beside other handlers", "S7", "innocent records are charged attempts for one that kills its process", "idem/batch TestEveryItemOfAStreamEndsOnce",
		[]replacement{{"idem/batch/streamrun.go", "return !st.alone && st.running == 0 && claims.calls == 0 && claims.relCalls == 0 && len(claims.releases) == 0", "return !st.alone && claims.calls >= 0"}},
	}, {
		"a record that is tried again goes behind the later ones of its lane", "S3", "a payment is handled before an earlier one of its lane", "idem/batch TestStreamRetriesAnItemAndBlocksOnlyItsLane",
		[]replacement{{"idem/batch/streamlane.go", "	if i < 0 {\n		i = len(l.queue)", "	if i < len(l.queue) {\n		i = len(l.queue)"}},
	}, {
		"a record of a stream with another value shares the outcome of the one with its key", "S5", "a record with another value has no dead letter", "idem/batch TestStreamSharesTheOutcomeOfDuplicates",
		[]replacement{{"idem/batch/streamkeys.go", "it.key == it.Task.Key && requestOf(&it.Task) == requestOf(&other.Task)", "it.key == it.Task.Key && other != nil"}},
	}, {
		"a lease is released before the handlers of its partition have returned", "rule P7", "two handlers of a payment at the same time", "idem/batch TestStreamReleasesTheLeaseWhenItsHandlersHaveReturned",
		[]replacement{{streamRange, "for _, l := range r.lanes {", "for _, l := range r.lanes[:0] {"}},
	}, {
		"a stream does not claim a lost lease again", "rule P7", "records are not settled", "idem/batch TestStreamThatLosesItsLease",
		[]replacement{{streamRange, "	r.shut()\n	r.hold()\n", "	r.shut()\n"}},
	}, {
		"a stream does not claim by key while a lease has no answer", "38bc12d", "records wait though the store answers claims", "idem/batch TestStreamWithoutALease|TestStreamThatFailsOpenStopsWhenTheStoreAnswers",
		[]replacement{{streamRange, "if st.scheduler.engine.FailsOpen(err) {", "if st.scheduler.engine.FailsOpen(err) && r.byKey {"}},
	}, {
		"a stream that fails open claims by key though the store answers", "38bc12d", "two handlers of a payment at the same time", "idem/batch TestStreamThatFailsOpenStopsWhenTheStoreAnswers|TestStreamWhoseLeaseIsFoundElsewhereWhileItClaims",
		[]replacement{{streamRange, "	if r.open {\n		r.shut()", "	if r.open && !r.byKey {\n		r.shut()"}},
	},
}

// defectsOfRecords are those of records, their letters, and of consumer processes.
var defectsOfRecords = []defect{
	{
		"a record without a key is handled without a claim", "docs/design.md, keys: IDEMSK_MISSING_KEY=process", "a record without a key is handled again when it is delivered again", "lambda/msk TestRecordWithoutKeyCanBeProcessed",
		[]replacement{{messageFile, "		return nil\n	}\n	if err != nil {\n		return err", "		m.Unprotected = true\n		return nil\n	}\n	if err != nil {\n		return err"}},
	}, {
		"a record that is refused takes the outcome of its key", "docs/design.md, how a record is settled", "a record with another value has no dead letter", "lambda/msk TestMismatchIsDeadLetteredAndLeavesTheKeyUnchanged",
		[]replacement{{messageFile, "t.Key, t.Fingerprint, t.Rejected = m.processor.storedPlace(m.Record), idem.Fingerprint{}, true", "t.Fingerprint, t.Rejected = idem.Fingerprint{}, true"}},
	}, {
		"records with an empty key are not in order", "ef9f68b", "a record with an empty Kafka key is handled before an earlier one", "lambda/msk TestEmptyKafkaKeyIsAKey",
		[]replacement{
			{"kafka/processor.go", "ok && key != nil {", "ok && len(key) > 0 {"}, {"kafka/processor.go", "		if key != nil {", "		if len(key) > 0 {"},
		},
	}, {
		"records of a stream with an empty key are not in order", "ef9f68b", "a record with an empty Kafka key is handled before an earlier one", "kafka TestStreamOrder",
		[]replacement{{"kafka/stream.go", "s.processor.cfg.Order == ByKey && r.Key != nil:", "s.processor.cfg.Order == ByKey && len(r.Key) > 0:"}},
	}, {
		"a partial answer does not name the records behind the first that is not settled", "docs/design.md, how a record is settled", "an answer leaves out a record behind one that it names", "lambda/msk TestRecordsAfterTheFirstFailureOfAPartitionAreReported",
		[]replacement{{"lambda/msk/answer.go", "			if blocked {\n", "			if blocked && !m.Settled() {\n"}},
	}, {
		"a partial answer does not name the first record that is not settled", "docs/design.md, how a record is settled", "a record is done and its payment not booked", "lambda/msk TestRecordsAfterTheFirstFailureOfAPartitionAreReported",
		[]replacement{{"lambda/msk/answer.go", "			if blocked {\n", "			if blocked && len(resp.BatchItemFailures) > 0 {\n"}},
	}, {
		"a dead letter has no token", "rule 10", "a key is FAILED, and its dead letter has another token", "lambda/msk TestDeadLetterContainsTheWholeRecord",
		[]replacement{{letterFile, "Token: b.Attempt.Token, Attempts:", "Attempts:"}},
	}, {
		"letters of two failures have one ID", "letter identity", "a queue that deduplicates drops the second letter", "kafka/sqsdlq TestFIFOQueueKeepsTheLettersOfAllFailures",
		[]replacement{{letterFile, `"%q %q %s %d %d", l.Cluster, l.Function, l.Source(), l.Token, l.Error.At.UnixNano())`, `"%q %q %s", l.Cluster, l.Function, l.Source())`}},
	}, {
		"letters of one record have the time of its last failure in seconds", "letter identity", "a queue that deduplicates drops the second letter of a record without a key", "lambda/msk TestEachFailureHasItsOwnTime",
		[]replacement{{letterFile, "time.Now().UTC().Round(0)", "time.Now().UTC().Truncate(time.Second)"}},
	}, {
		"a redriven record with a token that its key never had is dropped", "rule 10", "a record is done without a letter or a booking", "lambda/msk TestUnknownTokenDoesNotRedrive",
		[]replacement{{"kafka/redrive.go", "errors.As(out.Err, &failed) && failed.Token < redrive:", "errors.As(out.Err, &failed) && failed.Token < -redrive:"}},
	}, {
		"the watermark passes a record that is not settled", "docs/consumer.md", "an offset is committed and its payment not booked", "kafka/consumer TestWindowAgreesWithTheNaiveModel",
		[]replacement{{"kafka/consumer/window.go", "	w.entries[i].settled = true\n	if i == 0 {", "	w.entries[i].settled, w.entries[0].settled = true, true\n	if i >= 0 {"}},
	}, {
		"the windows of partitions have no sum", "3244fe3", "a process has more records than its bound", "kafka/e2e TestWindowsOfAllPartitionsKeepToTheBounds",
		[]replacement{
			{"kafka/consumer/bounds.go", "min(m.cfg.PartitionRecords, m.cfg.MaxRecords/n)", "m.cfg.PartitionRecords"},
			{"kafka/consumer/bounds.go", "min(m.cfg.PartitionBytes, m.cfg.MaxBytes/int64(n))", "max(m.cfg.PartitionBytes, m.cfg.MaxBytes/int64(n))"},
			{"kafka/consumer/bounds.go", "	if !m.crowded {\n		return\n	}\n	rest", "	if !m.crowded || m.joined {\n		return\n	}\n	rest"},
		},
	}, {
		"the records of a revoked partition go on", "docs/consumer.md", "a payment is handled by a process that lost its partition", "kafka/e2e TestRevokedPartitionIsCommitted|TestHandlerThatOutlastsItsPartition|TestMembersJoinAndLeaveInTheMiddleOfWork",
		[]replacement{{memberFile, "		m.finish(ctx, revoked)\n", "		_ = ctx\n"}},
	}, {
		"with latest the position at which reading begins is not committed", "f726534", "a record is never handled", "kafka/e2e TestLatestLosesNoRecordOfARestart",
		[]replacement{{latestFile, "	return m.commitEnds(ctx, offsets, open)", "	return nil"}},
	}, {
		"with latest a new partition is read from its end", "f726534", "a record is never handled", "kafka/e2e TestLatestReadsANewPartitionFromItsStart",
		[]replacement{{latestFile, "case number >= m.known[topic]:", "case number >= 1<<20+m.known[topic]:"}},
	},
}
