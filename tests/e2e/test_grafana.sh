#!/usr/bin/env bash
# Names that others rely on are names that the agent has: every query of examples/grafana/sonde.json
# is answered by Debian's Prometheus with data of a live agent, and every series that the pages in
# web/ ask for is one that the agent has.
. "$(dirname "$0")/../cli/common.sh"
: "${SONDE_SOURCE:?set it to the source directory}"
for tool in prometheus curl python3; do
    command -v $tool >/dev/null || { echo "$tool is missing: run tools/deps test" >&2; exit 1; }
done
cd "$scratch" || exit
patience=120

mkfifo commands
# An objective, so that there are series about it.
"$sonde" run -v --listen 127.0.0.1:0 --store store.db --continuous --set inference.slo_ttft_ms=60000 \
    -- "$programs/infer_load" --rate 20 --seconds 300 <commands >engine 2>agent.log &
run=$!
started+=("$run")
exec 7>commands
until_line '^ready' engine || finish
until_line 'http://' agent.log || finish
url=$(url_in agent.log)
# Failures are among what dashboards ask for.
printf '%s\n' 'error 3' 'leak 2000000' >&7

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >prometheus.yml <<END
global: { scrape_interval: 1s, scrape_timeout: 1s }
scrape_configs: [ { job_name: sonde, static_configs: [ { targets: ['${url#http://}'] } ] } ]
END
prometheus --config.file=prometheus.yml --storage.tsdb.path=data --web.listen-address="127.0.0.1:$port" >prometheus.log 2>&1 &
started+=($!)

python3 "$SONDE_SOURCE/tests/e2e/grafana.py" "$SONDE_SOURCE" "$url" "http://127.0.0.1:$port" >out 2>&1 7>&- ||
    complain "$(cat out)" "$(tail -n 5 prometheus.log)"
echo quit >&7 # the engine is the agent's child: it ends first
wait "$run"
finish
