#!/usr/bin/env bash
# `sonde tune` on a server whose speed by its options is known, and on commands. What it sleeps is long
# beside what a busy machine adds, and the differences are factors.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit 1
server=$programs/tune_server
load=(--prompt-tokens 8 --max-tokens 4 -c 4 --warmup 0.1 --block 0.5 --no-guide) # this server reports no passes
ask() { python3 -c "import json,sys; r=json.load(open(sys.argv[1])); print($2)" "$1"; }

# ---- Found, from a bad start ----------------------------------------------------------------------
status 0 "$sonde" tune "${load[@]}" --journal a.jsonl --knob threads=1,2,8 --knob slots=1,4 --only threads,slots,fa \
    -o a.json -- "$server" -t 8
same "the best is found" "{'threads': '2', 'slots': '4', 'fa': 'on'}" "$(ask a.json 'r["recommended"]')"
same "it is a change" change "$(ask a.json 'r["answer"]')"
same "its gain is sure" True "$(ask a.json 'r["gain"]["low"] > 5 and r["gain"]["probability"] > 0.99')"
same "with its command" "$server -t 2 --parallel 4 --flash-attn on" "$(ask a.json 'r["command_line"]')"
same "trials are kept" True "$(ask a.json 'len(r["trials"]) >= 10 and all(t["rss_bytes"] > 0 for t in r["trials"])')"
# 10 ms / 2 for a token, four at a time: no more than 800 per second, whatever the machine does.
same "figures are right" True "$(ask a.json 'all(t["tokens_per_s"] < 850 for t in r["trials"])')"
[ -z "$(pgrep -f "^$server" || true)" ] || complain "a server was left behind"

# ---- Resumed: nothing is tried again, and the answer is the same ----------------------------------
status 0 "$sonde" tune "${load[@]}" --journal a.jsonl --knob threads=1,2,8 --knob slots=1,4 --only threads,slots,fa \
    -o b.json -- "$server" -t 8
same "from the journal" "$(ask a.json 'r["trials"]')" "$(ask b.json 'r["trials"]')"
head -n 5 a.jsonl >cut.jsonl
printf '{"trial":4,"ph' >>cut.jsonl # killed while it wrote
status 0 "$sonde" tune "${load[@]}" --journal cut.jsonl --knob threads=1,2,8 --knob slots=1,4 \
    --only threads,slots,fa -- "$server" -t 8
has "goes on" '4 of them from the journal' out
has "to the same" '^change threads=2 slots=4 fa=on' out
status 2 "$sonde" tune "${load[@]}" --journal a.jsonl --knob threads=1,2 --only threads -- "$server"
has "other trials are not mixed in" 'holds trials of another command' err
echo nonsense >bad.jsonl
status 2 "$sonde" tune "${load[@]}" --journal bad.jsonl --knob threads=1,2 --only threads -- "$server"
has "a file that is no journal" 'is not a journal of .sonde tune. \(line 1\)' err

# ---- An engine that reports its passes: what slots may bring is expected before the first trial ---
"$(dirname "$sonde")/sonde-engine" make-model --size small -o small.gguf >/dev/null || complain "no model"
# A machine that is busy with something else makes a recording that no model explains: some tries.
for try in 1 2 3 4 5; do
    status 0 "$sonde" tune --prompt-tokens 16 --max-tokens 8 -c 4 --warmup 0.2 --block 2 --fresh --journal k.jsonl \
        --knob slots=1,2,4 --only slots --trials 6 -o k.json -- "$(dirname "$sonde")/sonde-engine" serve -m small.gguf -t 1
    [ "$(ask k.json 'r["guide"]["requests"] >= 30')" = True ] && break
done
same "the model was asked, and answered ($(ask k.json 'r["guide"]'))" True "$(ask k.json 'r["guide"]["requests"] >= 30')"
same "for each level" "[3, True]" "$(ask k.json '[len(r["knobs"][0]["expected"]), 0 in r["knobs"][0]["expected"]]')"
status 0 "$sonde" report k.jsonl.run # the recording is kept
status 0 "$sonde" tune --prompt-tokens 8 --max-tokens 4 -c 4 --warmup 0.1 --block 0.5 --journal l.jsonl --knob slots=1,4 \
    --only slots --trials 4 -o l.json -- "$server" -t 2
same "a server that reports none" "[0, True]" "$(ask l.json '[r["guide"]["requests"], "no inference requests" in r["guide"]["why"]]')"
same "not asked" False "$(ask a.json '"guide" in r')"

# ---- What does not work is left out, and why ------------------------------------------------------
status 0 "$sonde" tune "${load[@]}" --journal c.jsonl --knob threads=1,4 --only threads --trials 8 -- "$server"
has "its last words" 'threads=4: did not start: exit status 1: .*4 threads are not for me' out
has "and the given stays" '^keep the command as it is' out
status 0 "$sonde" tune "${load[@]}" --journal d.jsonl --memory 150M --knob slots=1,2,4 --only slots --trials 8 \
    -- "$server" --heavy
has "too much memory" 'slots=4: memory: [0-9]+ MiB at its peak, more than 150 MiB' out
has "less is fine" '^change slots=2$' out
status 0 "$sonde" tune "${load[@]}" --journal e.jsonl --slo 'itl<30ms' --knob threads=1,8 --only threads --trials 8 \
    -- "$server" -t 8
has "the given breaks the SLO" 'as given: SLO: 0 % of the answers meet it' out
has "another does not" '^change threads=1: .*the command as given does not work or breaks a constraint' out
status 1 "$sonde" tune "${load[@]}" --journal f.jsonl --knob batch=1,2 --only batch --trials 4 -- "$server" -t 4
has "nothing works" '^no setting worked' out

# ---- Stopped by a signal: the server is gone, the same command resumes ----------------------------
"$sonde" tune -v --prompt-tokens 8 --max-tokens 4 --block 0.4 --journal g.jsonl --only threads --knob threads=1,2 \
    --trials 100 -- "$server" -t 8 >stopped 2>log &
tuning=$!
started+=("$tuning")
until_line 'trial 2 ' log
kill -INT "$tuning"
wait "$tuning"
same "exit status" 1 $?
has "says so" 'stopped: the same command resumes' stopped
[ -z "$(pgrep -f "^$server" || true)" ] || complain "a server was left behind"

# ---- Commands -------------------------------------------------------------------------------------
cat >work <<'END'
#!/bin/sh
[ "$1" = --help ] && exit 0
[ "$2" = bad ] && { echo "no such way" >&2; exit 3; }
echo "speed: $1"
sleep "0.0$1"
END
chmod +x work
status 0 "$sonde" tune --journal h.jsonl --knob n=5,1,9 --knob way=good,bad --trials 14 -- ./work {n} {way}
has "the fastest" '^change n=1$' out
has "and its line" '^  ./work 1 good$' out
has "its exit status and words" 'way=bad: exit status 3: no such way' out
status 0 "$sonde" tune --journal i.jsonl --metric 'speed: ([0-9]+)' --knob n=5,1,9 --trials 14 -- ./work {n}
has "a number that it prints" '^change n=9$' out
status 0 "$sonde" tune --journal j.jsonl --metric 'speed: ([0-9]+)' --less --knob n=5,1,9 --trials 14 -- ./work {n}
has "less is better" '^change n=1$' out

# ---- Bad input ------------------------------------------------------------------------------------
status 2 "$sonde" tune
status 2 "$sonde" tune -- ./missing {n}
has "no such program" 'cannot run ./missing: No such file' err
status 2 "$sonde" tune --slo 'speed<3' -- "$server"
status 2 "$sonde" tune --memory lots -- "$server"
status 2 "$sonde" tune --metric 'speed' --knob n=1,2 -- ./work {n}
has "a group is needed" 'with a group' err
status 2 "$sonde" tune --knob n=1,2 -- ./work
has "nowhere to put it" 'no {n}' err
status 2 "$sonde" tune -- ./work
has "nothing to tune" 'there is nothing to tune' err
status 2 "$sonde" tune --objective wall -- "$server"
finish
