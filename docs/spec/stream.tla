------------------------------ MODULE stream ------------------------------
(* A partition with four records in two lanes, and a group of two members.   *)
(* The lanes have the same idempotency keys in opposite orders, in atomic    *)
(* mode. Claims are sent ahead; the watermark is committed at any time; the  *)
(* partition is revoked or lost while handlers run; processes die.           *)
(* CommitPast, ReleaseRunning and KeepClaims are drafts that must fail.      *)
EXTENDS Naturals, FiniteSets, TLC
CONSTANTS Poison, DeadLetters, Faults, CommitPast, ReleaseRunning, KeepClaims
Members == {"m", "n"}
Records == 1..4                 \* the offsets; all before committed + 1 is committed
Keys == {"a", "b"}
Lane == <<1, 2, 1, 2>>
Key == <<"a", "b", "b", "a">>
MaxAttempts == 2
NoOne == <<"-", 0>>
VARIABLES key, st, old, owner, committed, life, faults, effects
vars == <<key, st, old, owner, committed, life, faults, effects>>
(* st[m][r]: the record in the window of m. old[m]: records whose handlers   *)
(* outlast the assignment. life[m]: how often m was started.                 *)
Init == /\ key = [k \in Keys |-> [st |-> "A", own |-> NoOne, att |-> 0]]
        /\ st = [m \in Members |-> [r \in Records |-> "none"]]
        /\ old = [m \in Members |-> {}]
        /\ owner = "-" /\ committed = 0 /\ faults = Faults
        /\ life = [m \in Members |-> 1] /\ effects = [k \in Keys |-> 0]
Me(m) == <<m, life[m]>>
Final(k) == key[k].st \in {"C", "F"}
Dead(k) == key[k].st = "S" /\ key[k].own[2] # life[key[k].own[1]]
Before(r) == {q \in Records : q < r /\ Lane[q] = Lane[r]}
Head(m, r) == \A q \in Before(r) : st[m][q] \in {"none", "settled"}
Next1(m, r) == st[m][r] = "queued" /\ Head(m, r)
Isolating(m) == \E r \in Records : Next1(m, r) /\ Dead(Key[r])
(* a record of the lane that comes first is not claimed: it waits, or is tried again *)
Behind(m, r) == \E q \in Before(r) : st[m][q] = "queued" /\ (KeepClaims => key[Key[q]].st = "S")
Released(k) == [key EXCEPT ![k].st = "A", ![k].own = NoOne]
Set(m, r, s) == st' = [st EXCEPT ![m][r] = s]

Assign(m) == /\ owner = "-" /\ owner' = m
             /\ st' = [st EXCEPT ![m] = [r \in Records |-> IF r > committed THEN "queued" ELSE "none"]]
             /\ UNCHANGED <<key, old, committed, life, faults, effects>>
(* a claim, also ahead; nothing is claimed behind a record that waits        *)
Claim(m, r) == LET k == Key[r] IN
  /\ st[m][r] = "queued" /\ key[k].st = "A" /\ ~Isolating(m)
  /\ \A q \in Before(r) : st[m][q] # "queued"
  /\ KeepClaims \/ \A q \in Records : r \in Before(q) => st[m][q] # "claimed"
  /\ key' = [key EXCEPT ![k] = [st |-> "S", own |-> Me(m), att |-> @.att + 1]]
  /\ Set(m, r, "claimed") /\ UNCHANGED <<old, owner, committed, life, faults, effects>>
Unclaim(m, r) == LET k == Key[r] IN
  /\ st[m][r] = "claimed" /\ (Isolating(m) \/ Behind(m, r))
  /\ key' = [Released(k) EXCEPT ![k].att = @ - 1]
  /\ Set(m, r, "queued") /\ UNCHANGED <<old, owner, committed, life, faults, effects>>
Begin(m, r) == /\ st[m][r] = "claimed" /\ Head(m, r) /\ ~Isolating(m)
               /\ Set(m, r, "running") /\ UNCHANGED <<key, old, owner, committed, life, faults, effects>>
(* the key of a process that died is taken over while nothing else is in progress *)
TakeOver(m, r) == LET k == Key[r] IN
  /\ Next1(m, r) /\ Dead(k)
  /\ \A q \in Records : st[m][q] \notin {"claimed", "running"}
  /\ key' = [key EXCEPT ![k].own = Me(m), ![k].att = IF @ < MaxAttempts THEN @ + 1 ELSE @]
  /\ Set(m, r, "running") /\ UNCHANGED <<old, owner, committed, life, faults, effects>>
Replay(m, r) == /\ Next1(m, r) /\ Final(Key[r])
                /\ Set(m, r, "settled") /\ UNCHANGED <<key, old, owner, committed, life, faults, effects>>
(* a handler returns: its key is settled, or released for another attempt *)
Outcome(m, r, fails, next) == LET k == Key[r] IN
  /\ IF key[k].own # Me(m) THEN next = "queued" /\ UNCHANGED <<key, effects>>
     ELSE IF ~fails
     THEN /\ key' = [key EXCEPT ![k].st = "C"] /\ next = "settled"
          /\ effects' = [effects EXCEPT ![k] = @ + 1]
     ELSE IF DeadLetters /\ key[k].att >= MaxAttempts
     THEN key' = [key EXCEPT ![k].st = "F"] /\ next = "settled" /\ UNCHANGED effects
     ELSE key' = [Released(k) EXCEPT ![k].att = IF @ < MaxAttempts THEN @ ELSE MaxAttempts - 1] /\ next = "queued" /\ UNCHANGED effects
Return(m, r) == /\ st[m][r] = "running"
                /\ \E next \in {"queued", "settled"} : Outcome(m, r, Key[r] \in Poison, next) /\ Set(m, r, next)
                /\ UNCHANGED <<old, owner, committed, life, faults>>
ReturnLate(m, r) == /\ r \in old[m]
                    /\ \E next \in {"queued", "settled"} : Outcome(m, r, Key[r] \in Poison, next)
                    /\ old' = [old EXCEPT ![m] = @ \ {r}] /\ UNCHANGED <<st, owner, committed, life, faults>>
Max(S) == CHOOSE x \in S : \A y \in S : y <= x
Mark(m) == IF CommitPast THEN Max({committed} \cup {r \in Records : st[m][r] = "settled"})
           ELSE Max({n \in committed..4 : \A r \in (committed + 1)..n : st[m][r] = "settled"})
Commit(m) == /\ owner = m /\ Mark(m) > committed /\ committed' = Mark(m)
             /\ UNCHANGED <<key, st, old, owner, life, faults, effects>>
(* the partition is revoked, and its watermark committed, or it is lost; the *)
(* claims that have not begun are released                                   *)
Leave(m, commits) == LET gone == {Key[r] : r \in {q \in Records : st[m][q] = "claimed"}}
                         run == {r \in Records : st[m][r] = "running"}
                         free == gone \cup (IF ReleaseRunning THEN {Key[r] : r \in run} ELSE {}) IN
  /\ owner = m /\ faults > 0 /\ faults' = faults - 1 /\ owner' = "-"
  /\ committed' = IF commits THEN Mark(m) ELSE committed
  /\ key' = [k \in Keys |-> IF k \in free /\ key[k].own = Me(m)
                THEN [st |-> "A", own |-> NoOne, att |-> key[k].att - 1] ELSE key[k]]
  /\ old' = [old EXCEPT ![m] = @ \cup run]
  /\ st' = [st EXCEPT ![m] = [r \in Records |-> "none"]] /\ UNCHANGED <<life, effects>>
Die(m) == /\ faults > 0 /\ faults' = faults - 1 /\ owner' = IF owner = m THEN "-" ELSE owner
          /\ life' = [life EXCEPT ![m] = @ + 1] /\ old' = [old EXCEPT ![m] = {}]
          /\ st' = [st EXCEPT ![m] = [r \in Records |-> "none"]] /\ UNCHANGED <<key, committed, effects>>

Step(m) == \E r \in Records : \/ Claim(m, r) \/ Unclaim(m, r) \/ Begin(m, r) \/ TakeOver(m, r) \/ Replay(m, r)
                              \/ Return(m, r) \/ ReturnLate(m, r)
Next == \E m \in Members : Step(m) \/ Assign(m) \/ Commit(m) \/ Leave(m, TRUE) \/ Leave(m, FALSE) \/ Die(m)
Spec == /\ Init /\ [][Next]_vars
        /\ \A m \in Members :
             /\ WF_vars(Assign(m)) /\ WF_vars(Commit(m))
             /\ \A r \in Records : /\ WF_vars(Unclaim(m, r)) /\ WF_vars(Begin(m, r)) /\ WF_vars(TakeOver(m, r)) /\ WF_vars(Replay(m, r))
                                   /\ WF_vars(Return(m, r)) /\ WF_vars(ReturnLate(m, r)) /\ SF_vars(Claim(m, r))

Running(m) == old[m] \cup {r \in Records : st[m][r] = "running"}
(* an offset is committed only if the keys of all records before it are settled *)
CommittedIsSettled == \A r \in 1..committed : Final(Key[r])
(* a handler of a lane begins when the keys of all records before it are settled *)
InOrder == \A m \in Members : \A r \in Running(m) : \A q \in Before(r) : Final(Key[q])
OneHandler == \A k \in Keys : Cardinality({mr \in Members \X Records : mr[2] \in Running(mr[1]) /\ Key[mr[2]] = k}) <= 1
OneEffect == \A k \in Keys : effects[k] <= 1
NeverBack == [][committed' >= committed]_vars
(* without dead letters a lane waits at a record that always fails *)
Blocked(r) == ~DeadLetters /\ \E q \in Before(r) \cup {r} : Key[q] \in Poison
AllSettled == <>[](committed = Max({n \in 0..4 : \A r \in 1..n : ~Blocked(r)}))
===========================================================================
