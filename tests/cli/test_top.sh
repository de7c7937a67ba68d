# `sonde top`: one frame as text, and the live view in a real terminal (tmux).
source "$(dirname "$0")/common.sh"

shop=$SONDE_BUILD/example_shop
command -v tmux >/dev/null || { echo "tmux is missing: tools/deps installs it" >&2; exit 1; }

screen() { tmux -L "$scratch_name" -f /dev/null "$@"; }
scratch_name=sonde-top-$$
stop_tmux() { screen kill-server 2>/dev/null; cleanup; }
trap stop_tmux EXIT

picture() { screen capture-pane -p -t top >"$scratch/picture"; }
shows() { picture && grep -qE -- "$1" "$scratch/picture"; }
shows_not() { picture && ! grep -qE -- "$1" "$scratch/picture"; }
# see PATTERN: comes to be shown
see() { until_true shows "$1" || complain "$(cat "$scratch/picture")"; }
gone() { until_true shows_not "$1" || complain "$(cat "$scratch/picture")"; }
keys() { screen send-keys -t top "$@"; }
size() { screen resize-window -t top -x "$1" -y "$2"; }

# ---- Nothing recorded, bad use ---------------------------------------------------------------

status 0 "$sonde" top --once --interval 0.1
has "says how to start" 'sonde run -- CMD' "$scratch/out"
status 1 "$sonde" top </dev/null
has "no terminal" '--once' "$scratch/err"
status 2 "$sonde" top localhost:6060
has "not a URL" "'localhost:6060' is no URL" "$scratch/err"
status 2 "$sonde" top --once --page nonsense
has "choices" 'overview' "$scratch/err"
status 1 "$sonde" top --once http://127.0.0.1:1
has "no agent there" 'http://127.0.0.1:1: .*; start an agent there' "$scratch/err"

# ---- One frame -------------------------------------------------------------------------------

"$shop" --rate 200 >/dev/null 2>&1 &
started+=($!)
pid=$!
frame() { "$sonde" top --once --interval 0.2 "$@" >"$scratch/frame" 2>&1; }
frame_has() { frame "${@:2}" && grep -qE -- "$1" "$scratch/frame"; }

until_true frame_has "^ +$pid  shop +running +[0-9.]+ % +[0-9.]+ MiB +[0-9]+ +[0-9]+ +[1-9]" --width 120
has "the host" '^CPU .*memory [0-9.]+ .iB of .*load ' "$scratch/frame"
until_true frame_has 'shop_requests_total\{route="search",status="200"\} .* [1-9][0-9.]*k? ' \
    --page series --filter 'shop_requests_*' --width 200
lacks "filtered" 'shop_queue_depth' "$scratch/frame"
until_true frame_has '^request +[0-9.k]+ +[0-9.k]+ +[0-9.]+ (µs|ms)' --page spans --width 140
has "slowest spans with trace id and attributes" ' [0-9a-f]{32}  .*(route|product)=' "$scratch/frame"
for width in 20 40 80 300; do
    for page in overview series spans inference findings; do
        frame --page "$page" --width "$width"
        same "exit status at $width" 0 $?
        longest=$(wc -L <"$scratch/frame")
        [ "$longest" -le "$width" ] || complain "$page at $width columns is $longest wide"
    done
done
frame --page findings --width 100
has "nobody looks for findings without an agent" 'sonde findings PID' "$scratch/frame"
LC_ALL=C frame --page series --width 100
LC_ALL=C grep -q '[^ -~]' "$scratch/frame" && complain "not plain ASCII in the C locale"

# ---- Live ------------------------------------------------------------------------------------

screen new-session -d -s top -x 130 -y 30 -e SONDE_DIR="$SONDE_DIR" -e LC_ALL=C.UTF-8 \
    'PS1="ready> " bash --norc --noprofile'
see '^ready>'
keys "stty -g >$scratch/stty.before; $sonde top --interval 0.2; echo status=\$?" Enter
see "^ +$pid  shop +running"
see '^q quit +Tab page'
see 'SPANS/s'

keys Tab
see '\[2 series\]'
see 'shop_queue_depth'
keys / && keys -l 'shop_ route=search'
see '^filter: shop_ route=search'
keys Enter
see '· filter shop_ route=search ·'
gone 'shop_queue_depth'
see 'shop_request_duration_seconds\{route="search"\}'
see '[▁▂▃▄▅▆▇█]{3}'
keys t t t
see 'histograms only'
gone 'shop_requests_total'
keys t Escape
see 'shop_queue_depth'
keys s
see 'by rate'
keys 3
see '\[3 spans\]'
see '^request '
keys v
see '^latest '
# The latest request may have been refused before it came to compute: look at one after the other.
for _ in 1 2 3 4 5 6 7 8 9 10; do
    keys Enter
    see '^trace [0-9a-f]{32} · [0-9]+ spans'
    shows 'compute .*█' && break
    keys Escape
    see '^latest '
done
shows 'compute .*█' || complain "no trace with a bar of compute" "$(cat "$scratch/picture")"
keys Escape
see '^latest '
keys v v
see 'request → compute'
keys 1
see '\[1 overview\]'
keys Enter
see "process $pid"
keys a
gone "process $pid"
keys p
see 'paused$'
keys p
gone 'paused$'
keys '-'
see 'every 0.5 s'
keys '?'
see '^Keys$'
keys x
gone '^Keys$'

# Sizes: smaller, tiny, large; what matters stays.
keys 1
size 40 10
see "$pid  shop "
size 20 5
see '^q quit'
size 2 2
size 250 60
see "^ +$pid  shop +running"
see 'DROPS'

# The terminal is as it was, after q and after a signal.
keys q
see '^status=0'
keys "stty -g >$scratch/stty.after; echo compared" Enter
see '^compared'
same "terminal settings after q" "$(cat "$scratch/stty.before")" "$(cat "$scratch/stty.after")"
keys "clear; $sonde top --interval 0.2; echo status=\$?" Enter
see '^q quit'
pkill -TERM -P "$(screen list-panes -t top -F '#{pane_pid}')" -x sonde
see '^status=143'
keys "stty -g >$scratch/stty.after; echo compared again" Enter
see '^compared again'
same "terminal settings after SIGTERM" "$(cat "$scratch/stty.before")" "$(cat "$scratch/stty.after")"
keys "clear; TERM=dumb $sonde top; echo status=\$?" Enter
see "terminal type 'dumb'"
keys "clear; TERM=vt100 NO_COLOR=1 $sonde top --interval 0.2; echo status=\$?" Enter
see "^ +$pid  shop +running"
keys q
see '^status=0'

# ---- An agent by URL, that goes and comes back ------------------------------------------------

"$sonde" serve --listen 127.0.0.1:0 --interval 0.2 >"$scratch/serve" 2>&1 &
started+=($!)
agent=$!
until_line 'http://' "$scratch/serve"
url=$(url_in "$scratch/serve")
keys "clear; $sonde top --interval 0.2 $url; echo status=\$?" Enter
see "^ +$pid  shop +running"
keys 2
see 'shop_queue_depth'
keys 3
see '^request '
keys 1
kill "$agent" && wait "$agent" 2>/dev/null
see "^lost $url, retrying: "
see "^ +$pid  shop " # what was known stays
"$sonde" serve --listen "${url#http://}" --interval 0.2 >"$scratch/serve2" 2>&1 &
started+=($!)
gone '^lost '
see "^ +$pid  shop +running"
keys q
see '^status=0'
status 0 "$sonde" top --once --page series --filter 'queue|flight process=shop' "$url" --width 120
has "filter by URL" '^shop_requests_in_flight ' "$scratch/out"
finish
