#!/usr/bin/env bash
# `sonde export`: formats, filters, from segments and from an agent, to a file that is replaced
# as a whole.
. "$(dirname "$0")/common.sh"

"$programs/recorder" 42 60 >"$scratch/ready" &
recorder=$!
started+=("$recorder")
until_line ready "$scratch/ready"

status 0 "$sonde" export "$recorder"
has "prometheus" '^rec_events_total\{.*\} 42$' "$scratch/out"
lacks "one process only" '^sonde_host_|^host_' "$scratch/out"
status 0 "$sonde" export --format openmetrics "$recorder"
same "openmetrics" '# EOF' "$(tail -n 1 "$scratch/out")"
status 0 "$sonde" export --format json "$recorder"
python3 -m json.tool "$scratch/out" >/dev/null || complain "not JSON"
has "json" 'rec_events_total' "$scratch/out"
status 0 "$sonde" export --format csv "$recorder"
has "csv" 'rec_events_total.*42' "$scratch/out"

status 0 "$sonde" export -fcsv "$recorder"
has "short option with its value" 'rec_events_total.*42' "$scratch/out"

status 0 "$sonde" export --name 'rec_e*' --name rec_level
has "any of several names" '^rec_events_total' "$scratch/out"
has "any of several names" '^rec_level' "$scratch/out"
lacks "any of several names" '^rec_wait|^sonde_' "$scratch/out"
status 0 "$sonde" export --type histogram --process recorder
has "type" '^rec_wait_seconds_count' "$scratch/out"
lacks "type" '^rec_level' "$scratch/out"
status 0 "$sonde" export --name 'rec_*' --label "pid=$recorder"
has "label" '^rec_level' "$scratch/out"
status 0 "$sonde" export --name 'rec_*' --label pid=none
lacks "label" '^rec_level' "$scratch/out"
status 2 "$sonde" export --label pid
has "label without a value" "'pid' is not NAME=GLOB" "$scratch/err"
status 2 "$sonde" export here
has "neither" "'here' is neither a process id nor a URL" "$scratch/err"
status 1 "$sonde" export 4194303
has "no such process" 'process 4194303 has no segment in' "$scratch/err"

# To a file.
echo old >"$scratch/file"
status 0 "$sonde" export -o "$scratch/file" "$recorder"
[ ! -s "$scratch/out" ] || complain "-o writes to stdout"
has "-o" '^rec_events_total' "$scratch/file"
same "mode" "$(printf '%o' $((0666 & ~$(umask))))" "$(stat -c %a "$scratch/file")"
ln -s file "$scratch/link"
status 0 "$sonde" export -f csv -o "$scratch/link" "$recorder"
[ -L "$scratch/link" ] || complain "-o replaces a symbolic link"
has "-o to a link" '^rec_events_total|,rec_events_total|"rec_events_total' "$scratch/file"
status 1 "$sonde" export -o "$scratch/no/file" "$recorder"
has "no such folder" 'no/file' "$scratch/err"
status 1 "$sonde" export -o /dev/full "$recorder"
has "full device" 'No space left' "$scratch/err"
echo old >"$scratch/file"
status 1 bash -c 'ulimit -f 1; trap "" XFSZ; exec "$@"' - "$sonde" export -f json -o "$scratch/file"
has "no room" "it is as it was before" "$scratch/err"
same "the old file stays" old "$(cat "$scratch/file")"
same "no file is left behind" 0 "$(find "$scratch" -name 'file.*' | wc -l)"

# From an agent.
"$sonde" serve --listen 127.0.0.1:0 --interval 0.1 2>"$scratch/serve" &
agent=$!
started+=("$agent")
until_line 'listening on' "$scratch/serve"
url=$(url_in "$scratch/serve")
exported() { "$sonde" export "$@" | grep -qE '^rec_events_total\{.*\} 42$'; }
until_true exported "$url"
status 0 "$sonde" export --name 'rec_e*' --name rec_level --process 'rec*' --label "pid=$recorder" "$url/"
has "filters" '^rec_events_total' "$scratch/out"
has "filters" '^rec_level' "$scratch/out"
lacks "filters" '^rec_wait|^sonde_' "$scratch/out"
status 0 "$sonde" export --format json "$url"
python3 -m json.tool "$scratch/out" >/dev/null || complain "not JSON from $url"
kill -TERM "$agent"
wait "$agent"
status 1 "$sonde" export "$url"
has "nobody there" "${url}.*onnect" "$scratch/err"
finish
