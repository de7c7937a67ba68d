#!/usr/bin/env bash
# `sonde doctor`: each check says something, what does not work comes with advice.
. "$(dirname "$0")/common.sh"

status 0 "$sonde" doctor --listen 127.0.0.1:0
cp "$scratch/out" "$scratch/text"
for check in version config directory shm segments memory limits clock http probes perf cpu heap ptrace gpu; do
    has "a line on $check" "^(ok|warn) +$check +[^ ]" "$scratch/text"
done
lacks "no colour on a pipe" $'\033' "$scratch/text"

status 0 "$sonde" doctor --json --listen 127.0.0.1:0
python3 - "$scratch/out" <<'END' || complain "JSON:" "$(cat "$scratch/out")"
import json, sys
d = json.load(open(sys.argv[1]))
assert d["status"] in ("ok", "warn")
assert len(d["checks"]) >= 13
for c in d["checks"]:
    assert c["status"] in ("ok", "warn") and c["text"]
END

python3 -c '
import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(s.getsockname()[1], flush=True)
time.sleep(60)' >"$scratch/port" &
holder=$!
started+=("$holder")
until_line '[0-9]' "$scratch/port"
status 0 "$sonde" doctor --listen "127.0.0.1:$(cat "$scratch/port")"
has "who holds the port" "^warn +http .*in use.*\b$holder\b" "$scratch/out"
status 1 "$sonde" doctor --listen 127.0.0.1
has "no port" '^fail +http .*cannot listen on "127\.0\.0\.1"' "$scratch/out"

chmod 777 "$SONDE_DIR"
status 1 "$sonde" doctor
has "others may write" '^fail +directory .*written to by others' "$scratch/out"
chmod 700 "$SONDE_DIR"
touch "$scratch/file"
status 1 "$sonde" doctor --dir "$scratch/file"
has "not a directory" '^fail +directory .*is not a directory' "$scratch/out"
status 0 "$sonde" doctor --dir "$scratch/new/sub"
has "to be created" '^ok +directory .*will be created' "$scratch/out"
[ ! -e "$scratch/new" ] || complain "doctor creates the directory"
status 1 "$sonde" doctor --dir /proc/none
has "cannot be created" '^fail +directory' "$scratch/out"
status 0 bash -c 'ulimit -f 1000000; exec "$@"' - "$sonde" doctor
has "limits" '^warn +limits +RLIMIT_FSIZE' "$scratch/out"
# llama.cpp: what a program is linked with, or has built in.
echo 'int llama_decode(void) { return 0; }' | cc -shared -fPIC -o "$scratch/libllama.so" -x c -
echo 'int llama_decode(void); int main(void) { return llama_decode(); }' |
    cc -o "$scratch/linked" -x c - -x none "$scratch/libllama.so" -Wl,-rpath,"$scratch"
echo 'int llama_decode(void) { return 0; } int main(void) { return llama_decode(); }' |
    cc -o "$scratch/built_in" -x c -
status 0 "$sonde" doctor --listen 127.0.0.1:0 "$scratch/linked"
has "the library" 'llama +.*/libllama.so: 1 of [0-9]+ functions that are watched$' "$scratch/out"
has "what is missing" 'libllama.so has no llama_tokenize, so this is not known: when requests arrive' "$scratch/out"
status 0 "$sonde" doctor --listen 127.0.0.1:0 "$scratch/built_in"
has "built in" 'built_in: 1 of .*; it is built in' "$scratch/out"
status 0 "$sonde" doctor --listen 127.0.0.1:0 $$
has "a process without" 'warn +llama +[0-9]+: no llama.cpp in it' "$scratch/out"
status 1 "$sonde" doctor --listen 127.0.0.1:0 "$scratch/none"
has "no such file" 'fail +llama +.*/none cannot be read: No such file' "$scratch/out"

# ---- nothing of it is left, also where another agent looks ----------------------------------------
start_agent "$scratch/agent.log"
status 0 "$sonde" doctor --listen 127.0.0.1:0
same "no segment, no directory" "agent.lock" "$(ls "$SONDE_DIR")"
finish
