/* Answers of an agent, as serve/api/api.c writes them, for tests of the terminal views. */
#ifndef SONDE_TEST_PRESENT_TOP_TOP_SAMPLE_H
#define SONDE_TEST_PRESENT_TOP_TOP_SAMPLE_H

#define SAMPLE_PROCESSES                                                                       \
    "{\"time\":1700000000.5,\"processes\":["                                                   \
    "{\"pid\":4242,\"program\":\"example_shop\",\"state\":\"running\",\"ended\":null,"         \
    "\"segment_bytes\":1310720,\"lanes\":5,\"threads\":6,\"cpu_ratio\":0.873,"                 \
    "\"rss_bytes\":7340032,\"drops\":{\"SERIES\":0,\"SPANS\":3},\"spans_seen\":12000,"         \
    "\"spans_lost\":0,\"series\":31},"                                                         \
    "{\"pid\":77,\"program\":\"batch\",\"state\":\"killed\",\"ended\":1699999990.0,"           \
    "\"segment_bytes\":1048576,\"lanes\":1,\"threads\":0,\"cpu_ratio\":null,"                  \
    "\"rss_bytes\":null,\"drops\":{\"SERIES\":0},\"spans_seen\":10,\"spans_lost\":0}]}"

#define SAMPLE_HOST                                                                            \
    "{\"time\":1700000000.5,\"series\":["                                                      \
    "{\"name\":\"system_cpu_usage_percent\",\"type\":\"gauge\",\"pid\":null,\"value\":42.5,"    \
    "\"history\":[[3,42.5],[2,20],[1,10]]},"                                                   \
    "{\"name\":\"system_cpu_usage_percent\",\"type\":\"gauge\",\"pid\":9,\"value\":99},"        \
    "{\"name\":\"sonde_host_memory_total_bytes\",\"value\":8589934592},"                       \
    "{\"name\":\"sonde_host_memory_available_bytes\",\"value\":4294967296},"                   \
    "{\"name\":\"sonde_host_load1\",\"value\":0.5},{\"name\":\"sonde_host_load5\",\"value\":1}," \
    "{\"name\":\"sonde_host_load15\",\"value\":1.5},"                                          \
    "{\"name\":\"system_network_bytes_received_total\",\"value\":9999,\"rate\":2048},"         \
    "{\"name\":\"system_network_bytes_sent_total\",\"value\":9999,\"rate\":512}]}"

#define SAMPLE_FINDINGS                                                                        \
    "{\"time\":1700000000.5,\"findings\":[],\"looked\":1699999990,\"active\":["               \
    "{\"kind\":\"leak\",\"title\":\"Memory leak\",\"severity\":\"critical\","                   \
    "\"subject\":\"document_read\",\"file\":\"/src/shop/document.c\",\"line\":12,"            \
    "\"text\":\"document_read allocated 82.4 MiB that are still in use\","                   \
    "\"advice\":\"free what document_read allocates for document_serve\",\"impact\":0.9,"    \
    "\"gain\":null,\"gain_of\":null,\"since\":1699999880.5,\"symptoms\":[]},"                \
    "{\"kind\":\"queueing\",\"title\":\"Requests queue\",\"severity\":\"warning\","           \
    "\"subject\":\"requests\",\"text\":\"60 requests waited\",\"advice\":\"serve 4 at once\","  \
    "\"impact\":0.31,\"gain\":0.314,\"gain_of\":\"latency\",\"since\":1699999990.5,"         \
    "\"symptoms\":[{\"kind\":\"slow_first_token\"}]}]}"

#define SAMPLE_SERIES                                                                          \
    "{\"time\":1700000000.5,\"interval_s\":1,\"window_s\":60,\"series\":["                     \
    "{\"name\":\"shop_requests_total\",\"type\":\"counter\",\"kind\":\"counter\",\"unit\":\"\"," \
    "\"source\":\"\",\"labels\":{\"route\":\"/pay\",\"process\":\"example_shop\","             \
    "\"pid\":\"4242\"},\"process\":\"example_shop\",\"pid\":4242,\"value\":123456,"            \
    "\"avg\":250.5,\"p50\":251,\"p95\":260,\"p99\":263,\"rate\":250.5,\"trend\":\"up\","       \
    "\"history\":[[5,8],[4,6],[3,4],[2,2],[1,0]]},"                                            \
    "{\"name\":\"shop_latency_seconds\",\"type\":\"histogram\",\"unit\":\"seconds\","          \
    "\"labels\":{\"process\":\"example_shop\",\"pid\":\"4242\"},\"process\":\"example_shop\"," \
    "\"pid\":4242,\"value\":5000,\"avg\":0.002,\"p50\":0.0015,\"p95\":0.0034,\"p99\":0.0121,"  \
    "\"rate\":100,\"trend\":\"flat\",\"history\":[]},"                                         \
    "{\"name\":\"shop_queue_depth\",\"type\":\"gauge\",\"unit\":\"\",\"labels\":{},"           \
    "\"process\":\"example_shop\",\"pid\":4242,\"value\":7,\"avg\":null,\"p99\":null,"         \
    "\"rate\":null,\"trend\":null,\"history\":[[2,7],[1,null]]}],\"total\":1234,"              \
    "\"truncated\":true}"

#define HEAP_SERIES(name, type, pid, labels, value, rate, trend, history)                     \
    "{\"name\":\"" name "\",\"type\":\"" type "\",\"unit\":\"bytes\",\"labels\":{" labels "},"   \
    "\"process\":\"server\",\"pid\":" pid ",\"value\":" value ",\"rate\":" rate               \
    ",\"trend\":" trend ",\"history\":" history "}"
#define SAMPLE_MEMORY                                                                          \
    "{\"time\":1700000000.5,\"series\":["                                                      \
    HEAP_SERIES("sonde_heap_live_bytes", "gauge", "71", "", "104857600", "null", "\"up\"",       \
                "[[3,104857600],[2,94857600],[1,84857600]]") ","                               \
    HEAP_SERIES("sonde_heap_peak_bytes", "gauge", "71", "", "115343360", "null", "null", "[]")  \
    "," HEAP_SERIES("sonde_heap_allocated_bytes_total", "counter", "71", "", "1e9", "2097152",  \
                    "null", "[[2,2097152],[1,0]]") ","                                         \
    HEAP_SERIES("sonde_heap_allocations_total", "counter", "71", "", "1e6", "1500", "null",    \
                "[]") ","                                                                      \
    HEAP_SERIES("sonde_heap_live_allocations", "gauge", "71", "", "4200", "null", "null", "[]") \
    "," HEAP_SERIES("sonde_heap_allocator_bytes", "gauge", "71", "\"state\":\"used\"", "99",    \
                    "null", "null", "[]") ","                                                  \
    HEAP_SERIES("sonde_heap_allocator_bytes", "gauge", "71", "\"state\":\"free\"", "8388608",   \
                "null", "null", "[]") ","                                                      \
    HEAP_SERIES("sonde_process_resident_memory_bytes", "gauge", "71", "", "157286400", "null", \
                "\"down\"", "[[1,7]]") ","                                                     \
    HEAP_SERIES("sonde_memory_pool_bytes", "gauge", "71", "\"pool\":\"kv\"", "33554432",       \
                "null", "null", "[[2,33554432],[1,16777216]]") ","                             \
    HEAP_SERIES("sonde_process_resident_memory_bytes", "gauge", "9", "", "1048576", "null",    \
                "\"down\"", "[[2,1048576],[1,2097152]]") "],\"total\":10}"

#define SPAN(name, start, took, trace, id, parent, outcome, attributes)                        \
    "{\"name\":\"" name "\",\"program\":\"example_shop\",\"pid\":4242,\"tid\":4243,"           \
    "\"start\":" start ",\"duration_s\":" took ",\"trace_id\":\"" trace "\",\"span_id\":\"" id \
    "\",\"parent_id\":" parent ",\"outcome\":\"" outcome "\",\"attributes\":" attributes "}"
#define TRACE1 "0af7651916cd43dd8448eb211c80319c"
#define TRACE2 "1bf7651916cd43dd8448eb211c80319d"

#define SAMPLE_TRACE_SPANS                                                                     \
    SPAN("charge", "1699999999.012", "0.004", TRACE1, "00000000000000a3",                      \
         "\"00000000000000a1\"", "error", "{\"card\":\"visa\",\"retries\":2,\"score\":0.5}") "," \
    SPAN("parse", "1699999999.001", "0.002", TRACE1, "00000000000000a2",                       \
         "\"00000000000000a1\"", "ok", "{}") ","                                               \
    SPAN("request", "1699999999.0", "0.020", TRACE1, "00000000000000a1", "null", "ok",         \
         "{\"route\":\"/pay\"}")

#define SAMPLE_SPANS                                                                           \
    "{\"time\":1700000000.5,\"spans\":["                                                       \
    SPAN("request", "1699999999.5", "0.010", TRACE2, "00000000000000b1", "null", "ok", "{}") "," \
    SAMPLE_TRACE_SPANS "]}"

#define SAMPLE_TRACE "{\"time\":1700000000.5,\"spans\":[" SAMPLE_TRACE_SPANS "]}"

#define STAT(count, total, p50, p95, p99)                                                       \
    "{\"count\":" count ",\"total\":" total ",\"avg\":1,\"p50\":" p50 ",\"p95\":" p95             \
    ",\"p99\":" p99 ",\"max\":9}"
#define SAMPLE_INFERENCE                                                                           \
    "{\"time\":1700000000.5,\"window_s\":60,\"invalid_events\":{\"duplicate\":2,\"negative\":1},"  \
    "\"models\":[{\"process\":\"engine\",\"pid\":42,\"source\":\"api\",\"model\":\"tiny\","        \
    "\"backend\":\"cpu\",\"running\":4,\"waiting\":2,\"prefill_tokens_per_s\":1407.5,"             \
    "\"decode_tokens_per_s\":251.7,\"output_tokens_per_s\":266,\"hit_ratio\":0.329,"               \
    "\"kv\":{\"used\":655,\"total\":1000,\"peak\":700},"                                           \
    "\"memory\":{\"weights\":{\"bytes\":536870912},"                                               \
    "\"kv\":{\"bytes\":67108864}},\"memory_peak_bytes\":603979776}],"                              \
    "\"groups\":[{\"process\":\"engine\",\"pid\":42,\"model\":\"tiny\",\"route\":\"/v1/chat\","    \
    "\"requests\":{\"ok\":35,\"error\":3,\"cancelled\":5,\"timeout\":1,\"lost\":0},"               \
    "\"requests_per_s\":15.4,\"slo_met\":90,\"slo_missed\":10,"                                    \
    "\"user_tokens_per_s\":{\"count\":35,\"p50\":55.1},"                                           \
    "\"duration\":" STAT("35", "12", "0.319", "0.579", "0.598") ","                                \
    "\"ttft\":" STAT("44", "3", "0.05", "0.213", "0.218") ","                                      \
    "\"itl\":" STAT("697", "10", "0.0136", "0.0321", "0.0439") ","                                 \
    "\"phases\":{\"queue\":" STAT("40", "1", "1", "1", "1") ",\"prefill\":"                        \
    STAT("40", "1", "1", "1", "1") ",\"decode\":" STAT("40", "2", "1", "1", "1") "}}]}"
#define SAMPLE_REQUESTS                                                                            \
    "{\"time\":1700000000.5,\"total\":77,\"requests\":["                                           \
    "{\"id\":\"00000000000000a1\",\"own_id\":\"job-1\",\"state\":\"done\",\"outcome\":\"ok\","     \
    "\"pid\":42,\"program\":\"engine\",\"model\":\"tiny\",\"route\":\"/v1/chat\",\"trace_id\":\""  \
    TRACE1 "\",\"arrived\":1699999990,\"total_s\":0.4,\"ttft_s\":0.2,\"tokens_in\":96,"            \
    "\"tokens_out\":25,\"tokens_per_s\":62.5,\"phases\":{\"queue\":{\"seconds\":0.1,"              \
    "\"count\":1}},"                                                                               \
    "\"itl\":{\"count\":24,\"mean_s\":0.008},\"timeline\":[{\"name\":\"prefill\",\"start_s\":0.1," \
    "\"end_s\":0.2,\"busy_s\":0.1,\"tokens\":96},{\"name\":\"tokens\",\"start_s\":0.2,"            \
    "\"end_s\":0.2,\"tokens\":1},{\"name\":\"decode\",\"start_s\":0.2,\"end_s\":0.4,"              \
    "\"busy_s\":0.1,\"tokens\":24}]},"                                                             \
    "{\"id\":\"00000000000000a2\",\"own_id\":null,\"state\":\"running\",\"pid\":43,\"program\":"   \
    "\"other\",\"model\":\"big\",\"arrived\":1699999999,\"total_s\":0.2,\"tokens_out\":0}]}"

#endif
