----------------------------- MODULE partition -----------------------------
(* Claims by partition range.  One item for each partition has an owner, a   *)
(* token and a lease.  Its owner reads the keys of a batch, runs the records   *)
(* whose key is absent without a claim, and completes each key by one write    *)
(* that is conditional on its absence.  The token of these runs is that of the *)
(* lease, or a later time at which the owner has the lease (clk); the token of *)
(* the next lease is greater than all of them.                                 *)
(* Trouble goes by key, as in idem.tla: a failed handler writes its key; if a *)
(* lease ended without a release, every record that its owner may have begun  *)
(* (up to `till`) is claimed by key.                                          *)
(* Records of a partition are handled in order; a record that is not settled  *)
(* ends the batch.  Lost and late requests, crashes and owners that continue  *)
(* after their invocation was given up ("zombies") are as in idem.tla.  The   *)
(* lease of a crashed owner or of a zombie ends at any moment, that of        *)
(* another owner as often as MaxPause allows.                                 *)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
  Workers, KeyWorkers,  \* KeyWorkers claim each key, as a function does before it is deployed with this mode
  Shape,                \* the records: see Log
  MaxAttempts, MaxFault, MaxLost, MaxLate, MaxExt, MaxDup, MaxRewind, MaxRecreate, MaxToken,
  Cuts,                 \* TRUE: the event source may cut a batch at any record
  MaxPause,             \* leases that end while their owner is alive and its invocation was not given up
  ReadAfter,            \* TRUE: the keys are read after the lease was taken
  Isolate,              \* TRUE: records that a dead owner may have begun are claimed by key
  KeepTill,             \* TRUE: `till` outlasts every release | FALSE: a release forgets it
  IfAbsent,             \* TRUE: what runs without a claim is settled on condition that its key is absent
  ReleaseUnknown,       \* TRUE: the lease is released also if a settlement has no answer | FALSE: it is left to end
  ReleaseMark,          \* TRUE: what arrives after a release changes nothing
  LeaseToken,           \* TRUE: a claim by key of a partition's owner has no smaller token than its lease | FALSE: that of its own clock
  InLease,              \* TRUE: the token of a key is that of the lease, or a time before its end | FALSE: any time
  Stream,               \* TRUE: a consumer process: its range grows while it holds the lease, and it tries a record again, by key
  Reserve,              \* TRUE: the end of the range is written before a record behind it begins
  Higher                \* TRUE: a key whose settlement had no answer is claimed with a higher token than the lease's

VARIABLES key, part, w, esm, net, n, dl, ever, bad, runs, last, now
vars == <<key, part, w, esm, net, n, dl, ever, bad, runs, last, now>>

Parts == IF Shape \in {"two", "traced"} THEN {"p", "q"} ELSE {"p"}
Keys  == {"A", "B", "C"} \cup IF Shape = "traced" THEN {"D", "E", "G"} ELSE {}
Log(p, inc) == CASE Shape = "traced" -> IF inc = 2 THEN <<"G", "A">> ELSE IF p = "p" THEN <<"A", "B", "E", "C", "B">> ELSE <<"C", "D">>   \* see tracepartition.tla
                 [] inc = 2        -> <<"C", "A">>         \* the topic was deleted and created again
                 [] Shape = "two"  -> <<"A">>              \* one key in two partitions
                 [] Shape = "last" -> <<"A">>              \* a topic with one record
                 [] Shape = "same" -> <<"A", "A">>
                 [] Shape = "one"  -> <<"A", "B">>
NoOwn == <<"none", 0>>
Absent == [st |-> "A", own |-> NoOwn, ver |-> 0, att |-> 0, over |-> FALSE, rel |-> FALSE]
NoLease == [own |-> NoOwn, tok |-> 0, over |-> FALSE, rel |-> TRUE, till |-> 0, end |-> 0]
Idle == [pc |-> "idle", p |-> "p", inc |-> 1, from |-> 0, to |-> 0, i |-> 0, own |-> NoOwn,
         tok |-> 0, clk |-> 0, till |-> 0, end |-> 0, ran |-> 0, seen |-> NoLease, view |-> [a \in Keys |-> "A"], by |-> "lease",
         ver |-> 0, att |-> 0, kseen |-> Absent, zombie |-> FALSE]
Init ==
  /\ key = [a \in Keys |-> Absent] /\ part = [p \in Parts |-> NoLease]
  /\ w = [x \in Workers |-> Idle]
  /\ esm = [p \in Parts |-> [pos |-> 1, inc |-> 1, acked |-> {}]]
  /\ net = {} /\ dl = {} /\ ever = {} /\ bad = {} /\ now = 0
  /\ runs = [a \in Keys |-> 0] /\ last = [a \in Keys |-> [tok |-> 0, own |-> NoOwn]]
  /\ n = [fault |-> 0, lost |-> 0, late |-> 0, ext |-> 0, dup |-> 0, rew |-> 0, rec |-> 0, pause |-> 0]

(* The first name of a worker that nothing in the state remembers.  Names are compared, nothing else. *)
Known == {part[p].own : p \in Parts} \cup {key[a].own : a \in Keys} \cup {last[a].own : a \in Keys}
         \cup {w[x].own : x \in Workers} \cup {w[x].seen.own : x \in Workers} \cup {w[x].kseen.own : x \in Workers}
         \cup UNION {{m.own, m.seen.own, m.kseen.own} : m \in net}
Unused(x) == LET k == CHOOSE i \in 1..9 : <<x, i>> \notin Known /\ \A j \in 1..(i - 1) : <<x, j>> \in Known IN <<x, k>>
Tick(t) == IF t < MaxToken THEN t + 1 ELSE t

K(x) == Log(w[x].p, w[x].inc)[w[x].i]
Max(a, b) == IF a > b THEN a ELSE b
----------------------------------------------------------------------------
(* Requests.  A message has all that its condition and its change need. *)
Msg(x, op) == [op |-> op, own |-> w[x].own, p |-> w[x].p, tok |-> w[x].tok, seen |-> w[x].seen, ver |-> w[x].ver,
               kseen |-> w[x].kseen, by |-> w[x].by, inc |-> w[x].inc, from |-> w[x].from, to |-> w[x].to, i |-> w[x].i,
               a |-> IF w[x].i \in 1..Len(Log(w[x].p, w[x].inc)) THEN K(x) ELSE "none", till |-> w[x].till,
               fresh |-> IF w[x].ran # 0 /\ Higher THEN Max(w[x].clk, w[x].ran + 1) ELSE IF w[x].tok # 0 /\ LeaseToken THEN w[x].clk
                         ELSE IF w[x].tok # 0 THEN 1 ELSE Tick(now)]
OnLease(op) == op \in {"take", "free", "extend", "reserve"}
Holds(m) == key[m.a].st = "S" /\ key[m.a].own = m.own /\ key[m.a].ver = m.ver /\ ~key[m.a].rel
OK(m) ==
  CASE m.op = "take"   -> part[m.p] = m.seen
    [] OnLease(m.op)   -> part[m.p].own = m.own /\ part[m.p].tok = m.tok /\ (ReleaseMark => ~part[m.p].rel)
    [] m.op = "put"    -> key[m.a].st = "A"
    [] m.op = "steal"  -> key[m.a] = m.kseen
    [] m.by = "lease"  -> IfAbsent => key[m.a].st = "A"       \* complete, failed, retry
    [] OTHER           -> Holds(m)
NewLease(m) ==
  CASE m.op = "take" ->
         [own |-> m.own, tok |-> Tick(now), over |-> FALSE, rel |-> FALSE, end |-> IF Stream THEN m.from ELSE m.to,
          till |-> IF m.seen.rel THEN m.seen.till ELSE Max(m.seen.till, m.seen.end)]
    [] m.op = "free" ->
         [part[m.p] EXCEPT !.rel = TRUE, !.over = TRUE, !.end = 0, !.till = IF KeepTill THEN @ ELSE 0]
    [] m.op = "reserve" -> [part[m.p] EXCEPT !.over = FALSE, !.end = Max(@, m.i)]
    [] m.op = "extend" -> [part[m.p] EXCEPT !.over = FALSE, !.rel = IF ReleaseMark THEN @ ELSE FALSE]
NewKey(m) ==
  CASE m.op = "put"      -> [st |-> "S", own |-> m.own, ver |-> m.fresh, att |-> 1, over |-> FALSE, rel |-> FALSE]
    [] m.op = "steal"    -> [st |-> "S", own |-> m.own, ver |-> Tick(m.kseen.ver), att |-> m.kseen.att + 1, over |-> FALSE, rel |-> FALSE]
    [] m.op \in {"complete", "failed"} ->
         [st |-> IF m.op = "complete" THEN "C" ELSE "F", own |-> m.own, ver |-> m.ver,
          att |-> 1, over |-> TRUE, rel |-> FALSE]
    [] m.op = "retry"    -> IF m.by = "lease"
                            THEN [st |-> "S", own |-> m.own, ver |-> m.ver, att |-> 1, over |-> TRUE, rel |-> TRUE]
                            ELSE [key[m.a] EXCEPT !.over = TRUE, !.rel = TRUE]
Land(m) ==
  IF ~OK(m) THEN UNCHANGED <<key, part, ever, bad, now>>
  ELSE IF OnLease(m.op) THEN
       /\ part' = [part EXCEPT ![m.p] = NewLease(m)]
       /\ now' = IF m.op = "take" THEN Tick(now) ELSE now
       /\ bad' = IF m.op \in {"extend", "reserve"} /\ part[m.p].rel THEN bad \cup {"relocked"} ELSE bad
       /\ UNCHANGED <<key, ever>>
  ELSE /\ key' = [key EXCEPT ![m.a] = NewKey(m)]
       /\ now' = Max(now, NewKey(m).ver)
       /\ ever' = IF m.op = "complete" THEN ever \cup {m.a} ELSE ever
       /\ bad' = bad \cup (IF key[m.a].st \in {"C", "F"} THEN {"overwroteFinal"} ELSE {})
                     \cup (IF m.op = "steal" /\ key[m.a].st = "S" /\ ~key[m.a].over THEN {"liveSteal"} ELSE {})
       /\ UNCHANGED part
(* Was it this very request, sent again after its reply was lost? *)
Own(m) ==
  CASE m.op = "take" -> part[m.p].own = m.own
    [] m.op = "free" -> part[m.p].own = m.own /\ part[m.p].tok = m.tok /\ part[m.p].rel
    [] m.op = "reserve" -> FALSE
    [] m.op \in {"put", "steal"} -> key[m.a].st = "S" /\ key[m.a].own = m.own /\ ~key[m.a].rel
    [] m.op = "complete" -> key[m.a].st = "C" /\ key[m.a].own = m.own
    [] m.op = "failed" -> key[m.a].st = "F" /\ key[m.a].own = m.own
    [] OTHER -> key[m.a].own = m.own /\ key[m.a].rel
Quiet == UNCHANGED <<dl, runs, last>>
LostReply(x, op) == /\ n.lost < MaxLost /\ n' = [n EXCEPT !.lost = @ + 1] /\ Land(Msg(x, op)) /\ UNCHANGED <<w, esm, net>> /\ Quiet
Delayed(x, op) == /\ n.late < MaxLate /\ n' = [n EXCEPT !.late = @ + 1] /\ net' = net \cup {Msg(x, op)}
                  /\ UNCHANGED <<key, part, w, esm, ever, bad, now>> /\ Quiet
LandLate == \E m \in net : /\ net' = net \ {m} /\ Land(m) /\ UNCHANGED <<w, esm, n>> /\ Quiet
Sent(x, op) == Land(Msg(x, op)) /\ UNCHANGED <<net, n>> /\ Quiet
----------------------------------------------------------------------------
(* What a worker does at its next record.  That is its own step, and no other worker sees it. *)
RECURSIVE Begin(_, _)
Begin(x, r) ==
  IF r.i > r.to THEN [r EXCEPT !.pc = "free", !.by = "lease", !.ver = 0, !.att = 0]
  ELSE LET st == r.view[Log(r.p, r.inc)[r.i]] IN
    IF Stream /\ Reserve /\ r.i > r.end THEN [r EXCEPT !.pc = "reserve"]
    ELSE IF x \notin KeyWorkers /\ st \in {"C", "F"} THEN Begin(x, [r EXCEPT !.i = @ + 1])
    ELSE IF x \notin KeyWorkers /\ st = "A" /\ (r.i > r.till \/ ~Isolate)
         THEN [r EXCEPT !.pc = "run", !.by = "lease", !.ver = r.clk, !.att = 1]
    ELSE [r EXCEPT !.pc = "put", !.by = "key", !.ver = 0, !.att = 0]
----------------------------------------------------------------------------
(* The event source.  It acknowledges what the invocation answered, unless it has given the invocation up. *)
Answer(x, i) ==     \* every offset before i is settled
  /\ esm' = IF w[x].zombie THEN esm
            ELSE [esm EXCEPT ![w[x].p] = [@ EXCEPT !.pos = Max(i, @), !.acked = @ \cup {<<w[x].inc, o>> : o \in w[x].from..(i - 1)}]]
  /\ w' = [w EXCEPT ![x] = Idle]
Deliver(x, p) == \E e \in (IF Cuts THEN esm[p].pos ELSE Len(Log(p, esm[p].inc)))..Len(Log(p, esm[p].inc)) :
  /\ w[x].pc = "idle" /\ esm[p].pos <= e
  /\ LET busy == \E y \in Workers : w[y].pc # "idle" /\ w[y].p = p /\ ~w[y].zombie
         new  == [Idle EXCEPT !.pc = IF ReadAfter THEN "look" ELSE "read", !.p = p, !.inc = esm[p].inc,
                              !.from = esm[p].pos, !.to = e, !.i = esm[p].pos, !.own = Unused(x)] IN
       /\ busy => n.dup < MaxDup
       /\ n' = IF busy THEN [n EXCEPT !.dup = @ + 1] ELSE n
       /\ w' = [w EXCEPT ![x] = IF x \in KeyWorkers THEN Begin(x, new) ELSE new]
  /\ UNCHANGED <<key, part, esm, net, ever, bad, now>> /\ Quiet
Rewind(p) == \E o \in 1..(esm[p].pos - 1) :
  /\ n.rew < MaxRewind /\ n' = [n EXCEPT !.rew = @ + 1] /\ esm' = [esm EXCEPT ![p].pos = o]
  /\ UNCHANGED <<key, part, w, net, ever, bad, now>> /\ Quiet
Recreate(p) ==
  /\ n.rec < MaxRecreate /\ n' = [n EXCEPT !.rec = @ + 1] /\ esm' = [esm EXCEPT ![p].pos = 1, ![p].inc = 2]
  /\ w' = [x \in Workers |-> IF w[x].pc # "idle" /\ w[x].p = p THEN [w[x] EXCEPT !.zombie = TRUE] ELSE w[x]]
  /\ UNCHANGED <<key, part, net, ever, bad, now>> /\ Quiet
----------------------------------------------------------------------------
(* The lease of the partition *)
Calm == UNCHANGED <<key, part, net, n, ever, bad, now>> /\ Quiet
Look(x) ==
  /\ w[x].pc = "look" /\ Calm
  /\ LET l == part[w[x].p] IN
     IF l.rel \/ l.over THEN w' = [w EXCEPT ![x].pc = "take", ![x].seen = l] /\ UNCHANGED esm
     ELSE Answer(x, w[x].from)                     \* in flight elsewhere
Took(x, l) ==
  LET r == [w[x] EXCEPT !.tok = l.tok, !.clk = l.tok, !.till = l.till, !.end = l.end, !.seen = NoLease] IN
  w' = [w EXCEPT ![x] = IF ReadAfter THEN [r EXCEPT !.pc = "read"] ELSE Begin(x, r)] /\ UNCHANGED esm
Take(x) ==
  /\ w[x].pc = "take"
  /\ \/ LostReply(x, "take") \/ Delayed(x, "take")
     \/ /\ Sent(x, "take")
        /\ IF OK(Msg(x, "take")) THEN Took(x, part'[w[x].p])
           ELSE IF Own(Msg(x, "take")) THEN Took(x, part[w[x].p])
           ELSE w' = [w EXCEPT ![x].pc = "look"] /\ UNCHANGED esm
ReserveNext(x) ==
  /\ w[x].pc = "reserve"
  /\ \/ LostReply(x, "reserve") \/ Delayed(x, "reserve")
     \/ /\ Sent(x, "reserve")
        /\ IF OK(Msg(x, "reserve")) THEN w' = [w EXCEPT ![x] = Begin(x, [@ EXCEPT !.end = w[x].i])] /\ UNCHANGED esm
           ELSE Answer(x, w[x].i)                  \* the lease is lost
Read(x) ==
  /\ w[x].pc = "read" /\ UNCHANGED <<key, part, net, n, ever, bad, esm>> /\ Quiet
  /\ \E c \in {w[x].tok} \cup (IF ReadAfter /\ (InLease => part[w[x].p].own = w[x].own /\ ~part[w[x].p].over) THEN {Tick(now)} ELSE {}) :   \* a time before the end of the lease
     LET r == [w[x] EXCEPT !.view = [a \in Keys |-> key[a].st], !.clk = c] IN
     /\ w' = [w EXCEPT ![x] = IF ReadAfter THEN Begin(x, r) ELSE [r EXCEPT !.pc = "look"]]
     /\ now' = Max(now, c)
Extend(x) ==
  /\ w[x].pc \in {"running", "complete"} /\ w[x].by = "lease" /\ n.ext < MaxExt
  /\ \/ /\ n' = [n EXCEPT !.ext = @ + 1] /\ Land(Msg(x, "extend")) /\ UNCHANGED <<net, w, esm>> /\ Quiet
     \/ /\ n.late < MaxLate /\ n' = [n EXCEPT !.ext = @ + 1, !.late = @ + 1] /\ net' = net \cup {Msg(x, "extend")}
        /\ UNCHANGED <<key, part, w, esm, ever, bad, now>> /\ Quiet
Free(x) ==
  /\ w[x].pc = "free"
  /\ IF x \in KeyWorkers THEN Calm /\ Answer(x, w[x].i)
     ELSE \/ LostReply(x, "free") \/ Delayed(x, "free")
          \/ Sent(x, "free") /\ Answer(x, w[x].i)
----------------------------------------------------------------------------
(* The records of the batch, in order *)
Step(x, pc) == w' = [w EXCEPT ![x].pc = pc] /\ UNCHANGED esm
Settle(x, st) == w' = [w EXCEPT ![x] = Begin(x, [@ EXCEPT !.i = @ + 1, !.ran = 0, !.view[K(x)] = st, !.kseen = Absent])] /\ UNCHANGED esm
(* claims by key: rules 1, 5 and 7 of idem.tla *)
Got(x, it) == w' = [w EXCEPT ![x].pc = "run", ![x].ver = it.ver, ![x].att = it.att, ![x].kseen = Absent] /\ UNCHANGED esm
Decide(x, it) ==
  IF it.st \in {"C", "F"} THEN Settle(x, it.st)
  ELSE IF it.st = "A" THEN Step(x, "put")
  ELSE IF it.own = w[x].own /\ ~it.rel THEN Got(x, it)
  ELSE IF it.over \/ it.rel THEN w' = [w EXCEPT ![x].pc = "steal", ![x].kseen = it] /\ UNCHANGED esm
  ELSE Step(x, "free")                             \* in flight elsewhere
Claim(x, op) ==
  /\ w[x].pc = op
  /\ \/ LostReply(x, op) \/ Delayed(x, op)
     \/ /\ Sent(x, op)
        /\ IF OK(Msg(x, op)) THEN Got(x, key'[K(x)]) ELSE Decide(x, key[K(x)])
Valid(y) == IF w[y].by = "lease" THEN part[w[y].p].own = w[y].own /\ ~part[w[y].p].over
            ELSE key[K(y)].own = w[y].own /\ key[K(y)].st = "S" /\ ~key[K(y)].over
Run(x) ==
  /\ w[x].pc = "run"
  /\ IF w[x].att > MaxAttempts
     THEN Step(x, "dl") /\ bad' = (IF runs[K(x)] = 0 THEN bad \cup {"dlUnrun"} ELSE bad) /\ UNCHANGED <<runs, last>>
     ELSE /\ Step(x, "running")
          /\ runs' = [runs EXCEPT ![K(x)] = @ + 1]
          /\ last' = [last EXCEPT ![K(x)] = [tok |-> Max(w[x].ver, @.tok), own |-> w[x].own]]
          /\ bad' = bad
               \cup (IF \E y \in Workers \ {x} : w[y].pc = "running" /\ K(y) = K(x) /\ Valid(y) /\ Valid(x) THEN {"overlap"} ELSE {})
               \cup (IF Valid(x) /\ (last[K(x)].tok > w[x].ver \/ (last[K(x)].tok = w[x].ver /\ last[K(x)].own # w[x].own))
                     THEN {"tokenRegress"} ELSE {})
               \cup (IF Valid(x) /\ runs[K(x)] > 0 /\ last[K(x)].tok = w[x].ver THEN {"sameToken"} ELSE {})
               \cup (IF key[K(x)].st \in {"C", "F"} /\ Valid(x) THEN {"ranSettled"} ELSE {})
               \cup (IF w[x].by = "lease" /\ runs[K(x)] > 0 /\ Valid(x) THEN {"uncounted"} ELSE {})
  /\ UNCHANGED <<key, part, net, n, dl, ever, now>>
Finish(x) ==
  /\ w[x].pc = "running" /\ Calm
  /\ \E pc \in {"complete", IF w[x].att >= MaxAttempts THEN "dl" ELSE "retry", "dl"} : Step(x, pc)
DeadLetter(x) ==
  /\ w[x].pc = "dl" /\ dl' = dl \cup {K(x)} /\ Step(x, "failed")
  /\ UNCHANGED <<key, part, net, n, ever, bad, runs, last, now>>
Again(x, ran) ==     \* the record is tried again, by key; ran is the token of the run without an answer, or 0
  w' = [w EXCEPT ![x] = [@ EXCEPT !.pc = "put", !.by = "key", !.ran = ran, !.ver = 0, !.att = 0]] /\ UNCHANGED esm
Write(x, op, st) ==
  /\ w[x].pc = op
  /\ \/ LostReply(x, op) \/ Delayed(x, op)
     \/ /\ Sent(x, op)
        /\ IF (OK(Msg(x, op)) \/ Own(Msg(x, op))) /\ st # "S" THEN Settle(x, st)
           ELSE IF key[K(x)].st \in {"C", "F"} THEN Settle(x, key[K(x)].st)     \* another owner's
           ELSE IF Stream /\ st = "S" THEN Again(x, 0)
           ELSE Step(x, "free")
Unanswered(x) ==     \* the store does not answer any more: the invocation reports the record and those after it
  /\ w[x].pc \in {"complete", "failed", "retry"} /\ n.fault < MaxFault /\ n' = [n EXCEPT !.fault = @ + 1]
  /\ IF Stream /\ w[x].by = "lease" THEN Again(x, w[x].ver) ELSE IF ReleaseUnknown THEN Step(x, "free") ELSE Answer(x, w[x].i)
  /\ UNCHANGED <<key, part, net, ever, bad, now>> /\ Quiet
Crash(x) ==
  /\ w[x].pc # "idle" /\ n.fault < MaxFault /\ n' = [n EXCEPT !.fault = @ + 1]
  /\ w' = [w EXCEPT ![x] = Idle]
  /\ UNCHANGED <<key, part, esm, net, ever, bad, now>> /\ Quiet
Abandon(x) ==
  /\ w[x].pc # "idle" /\ ~w[x].zombie /\ n.fault < MaxFault /\ n' = [n EXCEPT !.fault = @ + 1]
  /\ w' = [w EXCEPT ![x].zombie = TRUE]
  /\ UNCHANGED <<key, part, esm, net, ever, bad, now>> /\ Quiet
Alive(own) == \E x \in Workers : w[x].own = own /\ w[x].pc # "idle" /\ ~w[x].zombie
Pause(own) == IF Alive(own) THEN n.pause < MaxPause /\ n' = [n EXCEPT !.pause = @ + 1] ELSE UNCHANGED n
LeaseEnds ==
  /\ UNCHANGED <<w, esm, net, ever, bad, now>> /\ Quiet
  /\ \/ \E p \in Parts : /\ ~part[p].rel /\ ~part[p].over /\ Pause(part[p].own)
                         /\ part' = [part EXCEPT ![p].over = TRUE] /\ UNCHANGED key
     \/ \E a \in Keys : /\ key[a].st = "S" /\ ~key[a].over /\ Pause(key[a].own)
                        /\ key' = [key EXCEPT ![a].over = TRUE] /\ UNCHANGED part

Act(x) == \/ Look(x) \/ Take(x) \/ ReserveNext(x) \/ Read(x) \/ Claim(x, "put") \/ Claim(x, "steal") \/ Run(x) \/ Finish(x) \/ DeadLetter(x)
          \/ Write(x, "complete", "C") \/ Write(x, "failed", "F") \/ Write(x, "retry", "S") \/ Free(x)
Next == \/ \E x \in Workers : Act(x) \/ Extend(x) \/ Unanswered(x) \/ Crash(x) \/ Abandon(x) \/ \E p \in Parts : Deliver(x, p)
        \/ LandLate \/ LeaseEnds \/ \E p \in Parts : Rewind(p) \/ Recreate(p)
Spec == Init /\ [][Next]_vars
LiveSpec == Spec /\ WF_vars(LeaseEnds) /\ WF_vars(LandLate)
                 /\ \A x \in Workers : WF_vars(Act(x)) /\ \A p \in Parts : SF_vars(Deliver(x, p))
----------------------------------------------------------------------------
FinalStays   == "overwroteFinal" \notin bad      \* and so one completion a key
NoLiveSteal  == "liveSteal" \notin bad
NoOverlap    == "overlap" \notin bad             \* two owners with valid leases never run one key at the same time
NoRunAgain   == "ranSettled" \notin bad          \* an owner with a valid lease does not run a settled key
NoUncounted  == "uncounted" \notin bad           \* what a former owner ran is not run again without a claim that counts the attempt
TokenGrows   == "tokenRegress" \notin bad
NoSameToken  == "sameToken" \notin bad          \* two runs of a key have different tokens
NoRelock     == "relocked" \notin bad
NoUnrunDead  == "dlUnrun" \notin bad             \* dead-lettered as exhausted, never called
NoLostRecord == \A p \in Parts : \A r \in esm[p].acked : Log(p, r[1])[r[2]] \in ever \cup dl
Attempts     == \A a \in Keys : runs[a] <= MaxAttempts + 1    \* the run without a claim that ended with its process is not counted
Settled      == <>[](\A p \in Parts : esm[p].pos > Len(Log(p, esm[p].inc)))
Bound        == now < MaxToken                  \* so Tick grows in all states that are checked
Sym          == Permutations(Workers)
=============================================================================
