/* Settings: SONDE_<TYPE>(section, key, default, [range or choices,] help). A LIST is a JSON array.
 * The sections and keys of a profiling configuration users already have (cpu, memory, gpu,
 * flamegraph, bottleneck, storage) are read as they are; agent and server are ours. */
SONDE_BOOL(cpu, enabled, 1, "sample CPU stacks in run, attach and on HTTP")
SONDE_INT(cpu, sample_rate_hz, 99, 1, 10000, "stack samples per second of a thread's CPU time; `sonde record` has -F")
SONDE_INT(cpu, max_stack_depth, 128, 1, 1024, "frames kept of a stack")
SONDE_BOOL(cpu, capture_threads, 1, "keep figures per thread")
SONDE_BOOL(memory, enabled, 1, "profile the heap")
SONDE_BOOL(memory, track_allocations, 1, "keep stacks of allocations")
SONDE_INT(memory, sample_rate, 100, 1, 1000000, "sampled allocations per 50 MiB allocated")
SONDE_BOOL(memory, leak_detection, 1, "look for leaks")
SONDE_BOOL(gpu, enabled, 1, "read GPU counters")
SONDE_INT(gpu, poll_interval_ms, 1000, 10, 60000, "between readings of GPUs")
SONDE_INT(gpu, burst_interval_ms, 100, 10, 60000, "between readings while something is profiled")
SONDE_BOOL(gpu, activity, 1,
    "read activity counters (GPM) of NVIDIA's GPUs; DCGM uses the same ones")
SONDE_STR(gpu, root, "",
    "folder that has dev, proc and sys of the machine, for an agent in a container; empty = /")
SONDE_BOOL(gpu, track_kernels, 0,
    "record commands of GPUs from the start in run and record; 0: once they are switched on")
SONDE_NUM(flamegraph, min_width_percent, 0.1, 0, 100, "narrower frames are left out")
SONDE_ENUM(flamegraph, color_scheme, "hot", "hot|cold|rainbow|monochrome|module", "colours")
SONDE_BOOL(flamegraph, interactive, 1, "zoom, search and tooltips")
SONDE_NUM(bottleneck, threshold_ms, 10, 0, 3600000, "bottlenecks that take less in all are not reported")
SONDE_BOOL(bottleneck, auto_detect, 1,
    "look for bottlenecks all the time, and in every profile that is kept, for /api/findings")
SONDE_NUM(bottleneck, interval_seconds, 30, 1, 86400, "between looks at the last minute")
SONDE_STR(bottleneck, mute, "",
    "findings that are not wanted: KIND or KIND:GLOB of its subject, separated by commas; `sonde "
    "findings --kinds` lists kinds")
SONDE_BOOL(bottleneck, alert_on_regression, 1, "look for changes, for /api/regressions and alerts")
SONDE_BOOL(storage, persist_to_hana, 0, "write to the SQL warehouse")
SONDE_INT(storage, retention_days, 30, 1, 36500, "older runs are deleted")
SONDE_INT(storage, max_profiles, 1000, 1, 10000000, "more than this: the oldest are deleted")
SONDE_STR(storage, path, "", "file in which `serve` and `run` keep what they read; empty = none")
SONDE_INT(storage, raw_hours, 48, 2, 876000, "for so long every reading is kept; then ten seconds, a minute and an hour as one")
SONDE_INT(storage, max_megabytes, 1024, 8, 16777216, "a larger store: the oldest is deleted")
SONDE_INT(storage, spans_per_second, 100, 1, 100000, "of spans kept, and as many failed ones; of more, a sample of whole traces")
SONDE_INT(storage, requests_per_second, 100, 1, 100000, "of inference requests kept, and as many that failed or were slow")
SONDE_INT(storage, recent_megabytes, 64, 0, 1048576, "without a store: so much of the last hours is kept until the agent ends, in a file without a name in $TMPDIR or /var/tmp; 0 = nothing")
SONDE_NUM(storage, recent_hours, 6, 0, 8760, "and for so long; 0 = nothing")
SONDE_BOOL(continuous, enabled, 0, "take profiles all the time, into the store")
SONDE_BOOL(continuous, recent, 1, "without that, `run` and `attach` keep those of the last hours in memory, for the dashboard")
SONDE_NUM(continuous, rate_hz, 19, 1, 10000, "stack samples per second of a thread's CPU time")
SONDE_NUM(continuous, interval_seconds, 60, 1, 86400, "heaps are looked at once in it, the CPU for duration_seconds of it")
SONDE_NUM(continuous, duration_seconds, 0, 0, 86400, "how long of each interval; 0 = all the time")
SONDE_BOOL(continuous, cpu, 1, "sample the CPU")
SONDE_BOOL(continuous, memory, 1, "keep what memory is used for, of programs started with `sonde run`")
SONDE_NUM(continuous, flush_seconds, 10, 0.2, 60, "between writes: what a killed agent loses")
SONDE_NUM(continuous, keep_minutes, 120, 1, 100000, "minutes are kept so long, then merged to hours")
SONDE_NUM(continuous, keep_hours, 48, 1, 100000, "hours are kept so long, then merged to days")
SONDE_INT(continuous, max_megabytes, 256, 1, 16777216, "more than this, or a quarter of storage.max_megabytes: the oldest are deleted")
SONDE_BOOL(cost, enabled, 1, "where profiles are taken all the time, switch CPU sampling off and "
           "on in short random windows to measure what it costs the program")
SONDE_NUM(cost, window_seconds, 2, 0.1, 3600, "length of such a window; at least "
          "agent.interval_seconds")
SONDE_NUM(cost, off_percent, 10, 1, 33, "of the time without samples at most, once there is a "
          "result; a fifth of it when that is narrow")
SONDE_STR(cost, work, "", "name of the counter or histogram that counts the program's work; "
          "empty = tokens, requests, spans or what else it counts")
SONDE_STR(agent, dir, "", "directory of segments; empty = /dev/shm/sonde-<uid>")
SONDE_NUM(agent, interval_seconds, 1, 0.05, 3600, "between readings of all series")
SONDE_NUM(agent, retain_seconds, 300, 0, 86400, "ended processes stay visible this long")
SONDE_INT(agent, max_series, 1048576, 1, 16777216, "series kept in all")
SONDE_INT(agent, max_spans, 16384, 16, 10000000, "recent spans kept")
SONDE_BOOL(agent, strip, 0, "leave paths, arguments, command lines, host and user names out of all that is shown or written")
SONDE_BOOL(agent, host_metrics, 1, "CPU, memory, disk, network and load of the host")
SONDE_BOOL(agent, process_metrics, 1, "CPU, memory, I/O of processes and their threads")
SONDE_NUM(inference, slo_ttft_ms, 0, 0, 3600000, "objective of requests: time to first token; 0 = none")
SONDE_NUM(inference, slo_itl_ms, 0, 0, 3600000, "objective: mean time between tokens; 0 = none")
SONDE_NUM(inference, slo_total_ms, 0, 0, 86400000, "objective: arrival to end; 0 = none")
SONDE_BOOL(inference, aliases, 0, "also show inference series under the names of vLLM (vllm:…) and llama.cpp (llamacpp:…), and as requests_total, request_duration_seconds, active_requests, tokens_per_second and memory_usage_bytes")
SONDE_INT(inference, max_requests, 4096, 16, 1000000, "finished requests kept")
SONDE_INT(inference, max_running, 4096, 16, 1000000, "requests in flight kept; over it the longest silent one is given up")
SONDE_NUM(inference, timeout_seconds, 600, 1, 86400, "requests not heard of for so long are given up")
SONDE_STR(baseline, dir, "", "folder of baselines; empty = ~/.local/state/sonde/baselines")
SONDE_INT(baseline, max_megabytes, 256, 1, 1000, "larger baselines are not written")
SONDE_STR(bench, dir, "", "folder of kept results; empty = ~/.local/state/sonde/bench")
SONDE_STR(push, otlp, "", "OTLP/HTTP collector to send to, http://HOST:4318; env = as OTEL_EXPORTER_OTLP_ENDPOINT and _HEADERS say; empty = none")
SONDE_STR(push, otlp_headers, "", "file with headers for it, such as Authorization: Bearer TOKEN, one a line; SONDE_OTLP_TOKEN is a token too")
SONDE_STR(push, remote_write, "", "Prometheus remote write to send to, http://HOST:9090; empty = none")
SONDE_STR(push, remote_write_headers, "", "file with headers for it; SONDE_REMOTE_WRITE_TOKEN is a token too")
SONDE_STR(push, pyroscope, "", "Pyroscope to send profiles to, http://HOST:4040; empty = none")
SONDE_STR(push, pyroscope_headers, "", "file with headers for it; SONDE_PYROSCOPE_TOKEN is a token too")
SONDE_STR(push, signals, "metrics,traces,profiles,logs",
    "what is sent to destinations that take it")
SONDE_NUM(push, interval_seconds, 10, 0.05, 3600, "between two of what is sent of all series; spans go with them, or sooner if many come")
SONDE_NUM(push, timeout_seconds, 10, 0.1, 600, "for one try")
SONDE_STR(push, labels, "", "NAME=VALUE,… added to all that is sent: external labels, resource attributes")
SONDE_BOOL(push, native_histograms, 0, "by remote write also send histograms as native ones, with all their buckets")
SONDE_STR(push, spool, "", "folder in which what cannot be sent waits; none = in memory; empty = sonde/push in $XDG_STATE_HOME or ~/.local/state")
SONDE_INT(push, spool_megabytes, 256, 1, 1048576, "for each destination; when it is full the oldest is dropped")
SONDE_NUM(push, spool_hours, 24, 0.001, 8760, "older than this is dropped")
SONDE_BOOL(alerts, enabled, 1, "watch rules, objectives and findings, and tell receivers")
SONDE_BOOL(alerts, log, 1, "alerts are lines of the log, too")
SONDE_STR(alerts, webhook, "", "URL that alerts are posted to; empty = none")
SONDE_ENUM(alerts, form, "generic", "generic|slack|alertmanager",
    "what is posted there: sonde's JSON, a message for Slack and those that take its "
    "form, or alerts for Prometheus' Alertmanager (/api/v2/alerts unless the URL has a "
    "path)")
SONDE_STR(alerts, headers, "",
    "file with headers for it, such as Authorization: Bearer TOKEN, one a line; "
    "SONDE_WEBHOOK_TOKEN is a token too")
SONDE_LIST(alerts, command, "[]",
    "program that is executed for each notification, as an array of its path and "
    "arguments: JSON on its standard input, SONDE_ALERT_… in its environment, status 0 = "
    "taken")
SONDE_LIST(alerts, receivers, "[]",
    "more receivers: objects with kind (webhook, slack, alertmanager, command, log), "
    "name, url or url_file, headers, command")
SONDE_LIST(alerts, rules, "[]",
    "thresholds on series: objects with name, series, labels, function, window_seconds, "
    "above, below, clear, for_seconds, keep_seconds, per, by, min_count, severity; "
    "docs/alerts.md")
SONDE_BOOL(alerts, resources, 0,
    "also the rules that are shipped: cpu, memory, disk, error_rate, "
    "operation_error_rate, cache_hit_rate, with the limits below")
SONDE_NUM(alerts, cpu_percent, 90, 0, 100,
    "cpu: more than this of all CPUs in use, on average over a minute; 0 = off")
SONDE_NUM(alerts, memory_percent, 90, 0, 100, "memory: more than this in use; 0 = off")
SONDE_NUM(alerts, disk_percent, 90, 0, 100,
    "disk: more than this of the root file system in use; 0 = off")
SONDE_NUM(alerts, error_ratio, 0.05, 0, 1,
    "error_rate, operation_error_rate: a larger share of requests, or operations, of the "
    "last minute failed; 0 = off")
SONDE_NUM(alerts, cache_hit_ratio, 0.5, 0, 1,
    "cache_hit_rate: a smaller share of cache look-ups of the last minute were hits; 0 = "
    "off")
SONDE_NUM(alerts, for_seconds, 60, 0, 86400,
    "so long a rule's condition must hold before its alert fires, unless the rule says")
SONDE_NUM(alerts, keep_seconds, 30, 0, 86400,
    "and so long it must be gone before the alert is resolved")
SONDE_NUM(alerts, slo_target, 0.99, 0, 0.999999,
    "share of requests that should meet inference.slo_…: an alert fires when misses use "
    "up the rest 14.4 times too fast over an hour and 5 minutes, or 6 times over 6 hours "
    "and 30 minutes; 0 = off")
SONDE_NUM(alerts, slo_min_requests, 20, 1, 1000000000,
    "fewer requests in the longer window raise no such alert")
SONDE_LIST(alerts, mute, "[]",
    "alerts that are listed but not sent: objects with labels (globs; kind and severity "
    "too), from, to, weekly, comment; docs/alerts.md")
SONDE_ENUM(alerts, min_severity, "info", "info|warning|critical",
    "less severe alerts are listed but not sent")
SONDE_NUM(alerts, repeat_hours, 0, 0, 8760,
    "tell again about what still fires after so long; 0 = once")
SONDE_NUM(alerts, timeout_seconds, 10, 0.1, 600, "for one try of a receiver")
SONDE_NUM(alerts, queue_hours, 24, 0.001, 8760,
    "notifications that could not be delivered for so long are dropped")
SONDE_STR(alerts, state, "",
    "file that keeps alerts, mutes and notifications over restarts; none = in memory; "
    "empty = beside the store (FILE.alerts), else if there is a webhook or command "
    "sonde/alerts in $XDG_STATE_HOME or ~/.local/state, else in memory")
SONDE_STR(alerts, url, "",
    "URL of this agent as people reach it, for links in notifications; empty = no links")
SONDE_NUM(health, window_seconds, 60, 1, 60, "/health is about the last so many seconds")
SONDE_NUM(health, max_p95_ms, 0, 0, 86400000, "latency over this is degraded; 0 = none")
SONDE_NUM(health, max_error_ratio, 0.05, 0, 1, "more failed requests than this are degraded; 0 = none")
SONDE_NUM(health, failing_error_ratio, 0.5, 0, 1, "and more than this failing: 503; 0 = none")
SONDE_NUM(health, max_memory_ratio, 0.95, 0, 1, "more of the machine's memory in use than this is degraded; 0 = none")
SONDE_STR(server, listen, "127.0.0.1:6060", "address and port of HTTP")
SONDE_STR(server, token_file, "", "file with the token that callers must have; SONDE_TOKEN is one too; empty = none")
SONDE_BOOL(server, open_metrics, 0, "/metrics takes no token")
SONDE_BOOL(server, open_health, 0, "/health takes no token; /livez, /readyz and /healthz never do")
SONDE_ENUM(server, local_users, "same", "same|all", "without a token, who of this machine may ask for more than /metrics and health: the user that sonde runs as and root, or everybody")
SONDE_STR(server, hosts, "", "names, separated by commas, that callers may use for this machine besides its addresses, and whose web pages may read answers (NAME or NAME:PORT)")
SONDE_STR(server, tls_certificate, "", "file with the certificate and its chain, in PEM; empty = plain HTTP")
SONDE_STR(server, tls_key, "", "file with the certificate's key, in PEM")
SONDE_INT(server, max_connections, 1024, 8, 65536, "connections at a time; then those that have been quiet for longest go")
SONDE_INT(server, max_streams, 256, 1, 16384, "live streams at a time")
SONDE_INT(server, max_header_bytes, 32768, 4096, 1048576, "of a request line and headers")
SONDE_INT(server, max_body_bytes, 67108864, 1024, 1073741824, "of a request; most routes take less, or none")
SONDE_NUM(server, idle_seconds, 30, 1, 3600, "a connection on which nothing comes, or is taken, for so long is closed")
SONDE_NUM(server, request_seconds, 30, 1, 3600, "a request that has not come as a whole so long after it could have begun is given up")
SONDE_NUM(server, answer_seconds, 300, 1, 86400, "an answer that has not been taken as a whole after so long is given up")
SONDE_NUM(server, rate_per_second, 100, 0, 1000000, "requests of one client address; 0 = any number. Health, and programs of this machine, are not counted")
SONDE_INT(server, rate_burst, 1000, 1, 10000000, "requests of one client address at once")
SONDE_STR(server, upstream, "", "inference server that `sonde serve` is the front of, http://HOST:PORT; empty = none")
SONDE_INT(server, upstream_poll_percent, 5, 0, 100, "with an upstream, how much of a CPU, over a minute, may go into looking for the next event instead of sleeping; 0 = none")
SONDE_BOOL(server, own_health, 0, "with an upstream, answer /health, /healthz, /livez and /readyz here instead of there")
SONDE_STR(ab, split, "",
    "second inference server, B, that answers a share of the requests in place of "
    "server.upstream, to compare the two; empty = none")
SONDE_STR(ab, mirror, "",
    "second inference server that gets copies of a share of the requests, whose answers are "
    "measured and dropped; empty = none")
SONDE_STR(ab, share, "",
    "of inference requests that the second server gets, 10% or 0.1; empty = 10% of a split, all"
    " of a mirror")
SONDE_STR(ab, session_header, "X-Session-Id",
    "requests with the same value of this header go to the same server; those without one by "
    "their trace; empty = all by their trace")
SONDE_NUM(ab, block_seconds, 10, 0.05, 3600,
    "what is compared are blocks of at least this length …")
SONDE_INT(ab, block_requests, 20, 1, 1000000, "… and of at least so many requests of each server")
SONDE_NUM(ab, detect_percent, 3, 0, 100,
    "differences that are surely smaller are called none; 0 = never say so")
SONDE_INT(ab, mirror_requests, 64, 1, 4096, "copies at a time; more are dropped and counted")
SONDE_INT(ab, mirror_request_kilobytes, 1024, 1, 65536, "larger requests are not mirrored")
SONDE_INT(ab, mirror_megabytes, 16, 1, 1024,
    "memory of all copies that wait to be sent; more are dropped")
SONDE_NUM(ab, mirror_timeout_seconds, 75, 0.1, 3600,
    "a copy for which the second server does nothing for so long has failed")
SONDE_LIST(scrape, targets, "[]", "exporters to read: URLs, or objects with url, job, instance, labels, interval_seconds, timeout_seconds, bearer_token_file")
SONDE_NUM(scrape, interval_seconds, 15, 0.1, 86400, "between scrapes of a target")
SONDE_NUM(scrape, timeout_seconds, 10, 0.1, 86400, "for an answer")
SONDE_INT(scrape, max_series, 50000, 1, 1048576, "series kept of a target")
SONDE_INT(scrape, max_megabytes, 64, 1, 1024, "larger answers are refused")
SONDE_BOOL(ingest, enabled, 1, "take metrics and traces by OTLP/HTTP at /v1/metrics and /v1/traces")
SONDE_INT(ingest, max_series, 50000, 1, 1048576, "series kept of all that is sent")
SONDE_NUM(ingest, stale_seconds, 300, 1, 86400, "what was not sent for so long is forgotten")
SONDE_STR(regression, series, "", "more series to look at: globs, separated by |")
SONDE_INT(regression, max_series, 1000, 1, 100000, "series looked at; each takes some 30 KB")
SONDE_NUM(regression, min_percent, 1, 0.1, 1000, "smaller changes are not reported")
SONDE_NUM(regression, threshold, 6.5, 3, 100, "a change is so many usual errors")
SONDE_NUM(regression, warmup_seconds, 600, 0, 86400, "left out after a program was restarted")
