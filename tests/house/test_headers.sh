#!/usr/bin/env bash
# The public headers compile alone, without a warning, in every language they promise.
. "$(dirname "$0")/common.sh"

cat >"$scratch/use.c" <<'END'
#include <sonde/sonde.h>
#include <sonde/sonde.h> /* twice is fine */

int use(void);
int use(void)
{
    static struct sonde_counter c;
    uint64_t rows = 0;
    SONDE_SCOPE("use");
    SONDE_RESOURCE_SCOPE("use"); SONDE_THROUGHPUT_SCOPE("use", rows);
    {
        SONDE_SCOPE("inner");
        c = sonde_counter("a_total", "help");
        sonde_counter_add(c, 1);
        sonde_gauge_set(sonde_gauge("b", "help"), 1.5);
        sonde_hist_record_traced(sonde_hist("c_seconds", "help", 1e-9), sonde_ticks_ns(1));
    }
    return 0;
}
END
cat >"$scratch/inference.c" <<'END'
#include <sonde/inference.h>
#include <sonde/inference.h>

int use(void);
int use(void)
{
    struct sonde_request_info info = { sizeof(struct sonde_request_info), 0, 0, 0, { 0, 0, 0 }, 0, 0, 0 };
    struct sonde_inference_env env;
    struct sonde_request r;
    struct sonde_phase p;
    struct sonde_batch b;
    env.size = sizeof(env);
    sonde_request_begin(&r, &info);
    sonde_phase_begin(&p, &r, SONDE_PHASE_PREFILL);
    sonde_phase_end(&p, 1);
    sonde_phase_record(&r, SONDE_PHASE_NAME(sonde_name("rerank")), 1, 2, 0);
    sonde_batch_begin(&b);
    sonde_batch_add(&b, &r, 0, 1);
    sonde_batch_end(&b);
    sonde_request_end(&r, SONDE_OK, 0);
    sonde_phase_begin_at(&p, 0, SONDE_PHASE_DECODE, sonde_ticks());
    sonde_phase_end_at(&p, 1, 0);
    sonde_inference_record(sonde_name("m"), 1, 1000);
    return sonde_inference_env(&env, 0, 0);
}
END
cat >"$scratch/engine.c" <<'END'
#include <sonde/engine.h>
#include <sonde/engine.h>

int use(void);
int use(void)
{
    struct sonde_device cpu = sonde_device("cpu");
    struct sonde_device_op matmul = sonde_device_op("cpu", "matmul");
    struct sonde_allocator kv = sonde_allocator("kv");
    static struct sonde_tokenizer t;
    struct sonde_tokenizer_encoded e = { 1, 2, 3, 4, 5, 6, 7 };
    sonde_device_op_record(matmul, 1);
    sonde_device_fallback("cuda0", "unsupported");
    sonde_device_memory(cpu, 1, 2);
    sonde_pool_add(kv.used, 4096);
    sonde_tokenizer_define(&t, "bpe");
    sonde_tokenizer_encoded(&t, &e);
    return SONDE_TOKENIZER_CLASSES - 6;
}
END
cat >"$scratch/ml.c" <<'END'
#include <sonde/ml.h>
#include <sonde/ml.h>

int use(void);
int use(void)
{
    static struct sonde_ml_loop loop;
    struct sonde_ml_scope s;
    sonde_ml_loop_define(&loop, "net");
    sonde_ml_epoch_begin(&loop, 0);
    sonde_ml_step_begin(&loop, SONDE_ML_FORWARD);
    sonde_ml_phase(&loop, SONDE_ML_BACKWARD);
    sonde_ml_step_end(&loop, 32, SONDE_OK);
    sonde_ml_value(&loop, "train_loss", 0.5);
    sonde_ml_epoch_end(&loop, SONDE_OK);
    sonde_ml_inference_begin(&s, "net", 8);
    sonde_ml_inference_end(&s, SONDE_OK);
    sonde_ml_worker("w0", 0.5, -1, 2);
    return SONDE_ML_PHASE_COUNT - 8;
}
END
cat >"$scratch/read.c" <<'END'
#include <sonde/read.h>
#include <sonde/read.h>

int use(void);
int use(void)
{
    static struct sonde_read_rate last;
    struct sonde_counter c;
    struct sonde_hist h = sonde_hist("c_seconds", "help", 1e-9);
    struct sonde_read_hist read;
    sonde_read_hist(h, &read);
    if (sonde_counter_find("a_total", 0, &c)) return 1;
    return sonde_read_rate(&last, sonde_read_counter(c)) < 50 && read.p99 < sonde_read_quantile(h, 0.5);
}
END
cat >"$scratch/bench.c" <<'END'
#include <sonde/bench.h>
#include <sonde/bench.h>

SONDE_BENCH(copy)
{
    static char from[4096], to[4096];
    const size_t bytes = (size_t)sonde_bench_param(state);
    sonde_bench_bytes(state, bytes);
    sonde_bench_items(state, 1);
    if (sonde_bench_thread(state) > 3) sonde_bench_fail(state, "too many");
    SONDE_BENCH_LOOP(state) {
        sonde_bench_pause(state);
        sonde_bench_resume(state);
        memcpy(to, from, bytes);
        SONDE_BENCH_KEEP(to);
        SONDE_BENCH_CLOBBER();
    }
}
SONDE_BENCH_PARAMS(copy, 64, 1 << 12);
SONDE_BENCH_THREADS(copy, 1, 2, 4);

SONDE_BENCH(nothing)
{
    SONDE_BENCH_LOOP(state) { SONDE_BENCH_CLOBBER(); }
}
SONDE_BENCH_RANGE(nothing, 1, 1024, 2);

SONDE_BENCH_MAIN()
END
for name in use inference engine ml read bench; do cp "$scratch/$name.c" "$scratch/$name.cpp"; done

strict=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -fsyntax-only "-I$SONDE_SOURCE/include")
compile() {
    "$@" "${strict[@]}" >"$scratch/out" 2>&1 || complain "$*: a public header does not compile cleanly:" "$(cat "$scratch/out")"
}
for compiler in gcc clang; do
    command -v $compiler >/dev/null || continue
    for standard in c11 gnu11 c17; do compile $compiler -std=$standard "$scratch"/*.c; done
    for standard in c++11 c++14 c++17 c++20; do compile $compiler -std=$standard "$scratch"/*.cpp; done
done
finish
