#!/usr/bin/env bash
# Help of everything there is, and what is said to a mistake.
. "$(dirname "$0")/common.sh"

status 0 "$sonde" --version
has "version" '^sonde [0-9]+\.[0-9]+\.[0-9]+$' "$scratch/out"

status 0 "$sonde" help
cp "$scratch/out" "$scratch/overview"
status 0 "$sonde" --help
cmp -s "$scratch/out" "$scratch/overview" || complain "--help and help differ"
status 2 "$sonde"

commands=$(sed -n 's/^  \([a-z]\{2,\}\) .*/\1/p' "$scratch/overview")
for wanted in run serve ls export doctor help; do
    grep -qx "$wanted" <<<"$commands" || complain "help does not list $wanted"
done
# check_command NAME…: of one command, or of one of another's own (bench http)
check_command() {
    local command="$*"
    status 0 "$sonde" help "$@"
    cp "$scratch/out" "$scratch/help"
    has "help $command" "^usage: sonde $command" "$scratch/help"
    status 0 "$sonde" "$@" --help
    cmp -s "$scratch/out" "$scratch/help" || complain "$command --help differs from help $command"
    status 0 "$sonde" "$@" -h
    while IFS= read -r line; do
        [ "${#line}" -le 100 ] || complain "help $command: wider than 100 columns: $line"
    done <"$scratch/help"
    awk '/^examples:/ { e = 1; next } /^$/ { e = 0 } e && !/^  /' "$scratch/help" >"$scratch/broken"
    [ ! -s "$scratch/broken" ] || complain "help $command: an example is broken:" "$(cat "$scratch/broken")"
    status 2 "$sonde" "$@" --no-such-option
    has "$command" "sonde $command: there is no option '--no-such-option'" "$scratch/err"
    [ ! -s "$scratch/out" ] || complain "$command: a mistake is told on stdout"
    if grep -q '^commands:$' "$scratch/help"; then
        status 2 "$sonde" "$@" nothing
        has "$command nothing" "there is no command '$command nothing'" "$scratch/err"
        local parts part
        mapfile -t parts < <(sed -n "s/^  $command \([a-z]*\) .*/\1/p" "$scratch/help")
        for part in "${parts[@]}"; do check_command "$@" "$part"; done
    else
        has "help $command" '--config FILE' "$scratch/help"
    fi
}
for command in $commands; do check_command "$command"; done

status 0 "$sonde" help config
has "help config" '^  agent\.interval_seconds' "$scratch/out"
has "help config" '^  server\.listen' "$scratch/out"

status 2 "$sonde" help nothing
has "help of nothing" "nothing on 'nothing'" "$scratch/err"
status 2 "$sonde" exprot
has "suggestion" "did you mean 'export'" "$scratch/err"
status 2 "$sonde" zzzzzzzz
has "no suggestion" 'sonde help' "$scratch/err"
status 2 "$sonde" --verbose run true
has "option before the command" 'options follow the command' "$scratch/err"

# Each kind of option says what is allowed.
status 2 "$sonde" run --keeep 3 -- true
has "option's name" "did you mean '--keep'" "$scratch/err"
status 2 "$sonde" run --keep soon -- true
has "number" "--keep: 'soon' is not a number from 0 to" "$scratch/err"
status 2 "$sonde" run --keep=-1 -- true
has "range" "--keep: '-1' is not a number" "$scratch/err"
status 2 "$sonde" run --keep
has "no value" '--keep needs SECONDS' "$scratch/err"
status 2 "$sonde" run --no-http=yes -- true
has "value of a flag" '--no-http takes no value' "$scratch/err"
status 2 "$sonde" export --type nonsense
has "choice" "'nonsense' is not one of counter\|gauge" "$scratch/err"
status 2 "$sonde" export --format nonsense
has "format" "'nonsense' is not one of prometheus, openmetrics" "$scratch/err"
status 2 "$sonde" ls extra
has "operand" "what to do with 'extra'" "$scratch/err"
status 2 "$sonde" ls -Z
has "letter" "no option '-Z'" "$scratch/err"
status 2 "$sonde" run
has "nothing to run" 'say what to run' "$scratch/err"

# Output that cannot be written is a failure.
status 1 sh -c '"$0" help >/dev/full' "$sonde"
has "full disk" 'No space left' "$scratch/err"
status 1 sh -c '"$0" ls --json >/dev/full' "$sonde"
finish
