#!/usr/bin/env bash
# Settings that hold everywhere: on HTTP as on the command line, from a file as from the environment;
# and those that do nothing are told.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit
# Few threads with much to do: a timer on CPU time first fires after 10 ms of it, in each thread.
shop=("$SONDE_BUILD/example_shop" --threads 1 --rate 2000)
code() { curl -s -o body -w '%{http_code}' "$@"; }
sampled() { # something was: a machine that is busy may take a while
    [ "$(code -X POST "$url/admin/profile/cpu?duration=0.5")" = 200 ] &&
        grep -q '"total_samples":[1-9]' body
}
memory_seen() { [ "$(code -X POST "$url/admin/profile/memory")" = 200 ]; }
end() {
    kill -TERM "$agent"
    wait "$agent"
}

# ---- flame graphs on HTTP look as the settings say --------------------------------------------
"${shop[@]}" >/dev/null 2>&1 &
started+=($!)
cat >cold.json <<'JSON'
{"flamegraph": {"color_scheme": "cold", "min_width_percent": 5}}
JSON
for config in none cold; do
    args=()
    [ $config = none ] || args=(--config cold.json)
    start_agent log "${args[@]}"
    until_true sampled
    same "svg, $config" 200 "$(code -X POST "$url/admin/profile/flamegraph")"
    mv body $config.svg
    same "kept svg, $config" 200 "$(code "$url/admin/profiles/on-demand-cpu?format=svg")"
    mv body $config.kept.svg
    same "html, $config" 200 "$(code -X POST "$url/admin/profile/flamegraph?format=html")"
    mv body $config.html
    end
done
for kind in svg kept.svg; do
    has "default $kind" '"colors":"hot"' none.$kind
    has "default $kind" '"minWidth":0.001' none.$kind
    has "$kind" '"colors":"cold"' cold.$kind
    has "$kind" '"minWidth":0.05' cold.$kind
done
has "html" '"colors":"cold"' cold.html
has "html" '"minWidth":0.05' cold.html

# ---- cpu.enabled and memory.enabled hold on HTTP ----------------------------------------------
check_off() { # WHAT: of the agent at $url nothing is sampled, but heaps are, or the reverse
    same "$1: cpu" 404 "$(code -X POST "$url/admin/profile/cpu?duration=0.1")"
    has "$1: cpu: why" 'cpu.enabled is false' body
    same "$1: pprof" 404 "$(code "$url/debug/pprof/profile?seconds=0.1")"
    same "$1: start" 200 "$(code -X POST -d '{"name":"x"}' "$url/admin/profile/start")"
    has "$1: start" '"cpu":false' body
    same "$1: stop" 200 "$(code -X POST "$url/admin/profile/stop")"
    lacks "$1: stop" '"total_samples":[1-9]' body
}
run() { # LOG ENVIRONMENT… -- OPTIONS…
    local log=$1 env=()
    shift
    while [ "$1" != -- ]; do env+=("$1"); shift; done
    shift
    : >"$log"
    env "${env[@]}" "$sonde" run -v --listen 127.0.0.1:0 "$@" -- "${shop[@]}" 2>"$log" >/dev/null &
    agent=$!
    started+=("$agent")
    until_line 'http://' "$log" || finish
    url=$(url_in "$log")
    until_true curl -sf "$url/readyz"
}
run run.log A=b -- --set cpu.enabled=false
check_off "run"
end
start_agent log --set cpu.enabled=false
check_off "serve"
end
run run.log NLOCAL_PROFILE_CPU=false --
check_off "run by NLOCAL_PROFILE_CPU"
until_true memory_seen
end
run run.log NLOCAL_PROFILE_ENABLED=0 --
check_off "run by NLOCAL_PROFILE_ENABLED"
same "memory" 404 "$(code -X POST "$url/admin/profile/memory")"
has "memory: why" 'memory.enabled is false' body
end
SONDE_PROFILE_MEMORY=0 start_agent log
same "serve by SONDE_PROFILE_MEMORY" 404 "$(code -X POST "$url/admin/profile/memory")"
has "serve by SONDE_PROFILE_MEMORY: why" 'memory.enabled is false' body
end
run run.log SONDE_PROFILE_MEMORY=false --
same "run by SONDE_PROFILE_MEMORY" 404 "$(code -X POST "$url/admin/profile/memory")"
has "run by SONDE_PROFILE_MEMORY: why" 'memory.enabled is false' body
end
NLOCAL_PROFILE_CPU=0 start_agent log
check_off "serve by NLOCAL_PROFILE_CPU"
end
SONDE_PROFILE_ENABLED=false start_agent log
check_off "serve by SONDE_PROFILE_ENABLED"
same "memory" 404 "$(code -X POST "$url/admin/profile/memory")"
end
for name in NLOCAL_PROFILE_GPU SONDE_PROFILE_GPU; do
    status 0 env $name=1 "$sonde" doctor --listen 127.0.0.1:0
    lacks "doctor: $name" 'gpu.enabled' out
    status 0 env $name=0 "$sonde" doctor --listen 127.0.0.1:0
    has "doctor: $name" '^ok +gpu +gpu.enabled is false: GPUs are not read' out
done
status 2 env NLOCAL_PROFILE_CPU=perhaps "$sonde" run -- true
has "a bad one" 'NLOCAL_PROFILE_CPU is "perhaps", but must be 0, 1, true or false' err

# ---- settings that do nothing -----------------------------------------------------------------
cat >seed.json <<'JSON'
{
  "cpu": { "enabled": true, "sample_rate_hz": 1000, "max_stack_depth": 128, "capture_threads": true },
  "memory": { "enabled": true, "track_allocations": true, "sample_rate": 100, "leak_detection": true },
  "gpu": { "enabled": true, "poll_interval_ms": 100, "track_kernels": true },
  "flamegraph": { "min_width_percent": 0.1, "color_scheme": "hot", "interactive": true },
  "bottleneck": { "threshold_ms": 10, "auto_detect": true, "alert_on_regression": true },
  "storage": { "persist_to_hana": true, "retention_days": 30, "max_profiles": 1000 }
}
JSON
void='.*storage.persist_to_hana'
start_agent log --config seed.json
has "serve" "have no effect in this version: $void" log
end
status 0 "$sonde" run --no-http --no-heap --config seed.json -- true
has "run" "have no effect in this version: $void" err
status 0 "$sonde" run -q --no-http --no-heap --config seed.json -- true
lacks "run -q" 'no effect' err
status 0 "$sonde" ls --config seed.json
lacks "ls" 'no effect' err
status 0 "$sonde" doctor --listen 127.0.0.1:0 --config seed.json
has "doctor" 'warn +config +storage.persist_to_hana has no effect in this version: nothing is written' out
lacks "doctor" 'cpu.capture_threads|flamegraph.interactive|memory\.|gpu.track_kernels' out
has "doctor looked for GPUs" '^(ok|warn) +gpu ' out
status 0 "$sonde" help config
grep -A2 -E 'memory\.|sample_rate' out | grep 'no effect' && complain "help: memory.* is said to have no effect"
finish
