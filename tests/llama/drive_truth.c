/* What happened, as JSON; and digests of what was generated. All times are nanoseconds of
 * CLOCK_MONOTONIC; start_realtime_ns is start_ns on the other clock. */
#include "drive.h"

#include <inttypes.h>

static uint64_t digest_of(const struct drive_request *r, uint64_t seed)
{
    uint64_t hash = seed ^ 0xcbf29ce484222325u; /* FNV-1a, a token at a time */
    for (int i = 0; i < r->count; i++) {
        hash ^= (uint64_t)(uint32_t)r->tokens[i].id;
        hash *= 0x100000001b3u;
    }
    return hash;
}

void drive_digest_print(const struct drive *d, FILE *out)
{
    uint64_t all = 0;
    long tokens = 0;
    for (int i = 0; i < d->requests_count; i++) {
        const struct drive_request *r = &d->requests[i];
        fprintf(out, "request %d: prompt %d, reused %d, generated %d, %s, %016" PRIx64 "\n", r->id,
            r->prompt_count, r->reused, r->count, r->outcome, digest_of(r, 0));
        all = digest_of(r, all);
        tokens += r->count;
    }
    fprintf(out, "digest: %d requests, %ld tokens, %016" PRIx64 "\n", d->requests_count,
            tokens, all);
}

static void write_request(const struct drive *d, const struct drive_request *r, FILE *out)
{
    const struct drive_token *t = r->tokens;
    fprintf(out, "    {\"id\": %d, \"seq\": %d, \"outcome\": \"%s\", \"prompt_tokens\": %d, "
            "\"reused_tokens\": %d, \"prompt_passes\": %d, \"output_tokens\": %d, \"text_bytes\": "
            "%" PRId64
            ",\n", r->id, r->seq, r->outcome, r->prompt_count, r->reused, r->prompt_passes,
            r->count, r->text_bytes);
    fprintf(out, "     \"arrival_ns\": %"
            PRId64 ", \"tokenized_ns\": %" PRId64 ", \"started_ns\": %" PRId64
            ", \"first_pass_ns\": %"
            PRId64 ", \"prompt_done_ns\": %" PRId64 ", \"first_token_ns\": %" PRId64
            ", \"end_ns\": %" PRId64 ",\n", r->arrival_ns, r->tokenized_ns, r->started_ns,
            r->first_pass_ns, r->prompt_done_ns, t[0].ns, r->end_ns);
    fprintf(out,
            "     \"queue_ns\": %" PRId64 ", \"ttft_ns\": %" PRId64 ", \"prefill_ns\": %" PRId64
            ", \"decode_ns\": %" PRId64 ", \"sampling_ns\": %" PRId64 ", \"text_ns\": %" PRId64
            ", \"latency_ns\": %" PRId64 ",\n", r->first_pass_ns - r->tokenized_ns,
            t[0].ns - r->arrival_ns, r->prompt_done_ns - r->first_pass_ns,
            t[r->count - 1].ns - t[0].ns, r->sampling_ns, r->text_ns, r->end_ns - r->arrival_ns);
    fprintf(out, "     \"tokens\": [");
    for (int i = 0; i < r->count; i++) fprintf(out, "%s%d", i ? ", " : "", t[i].id);
    fprintf(out, "],\n     \"token_ns\": [");
    for (int i = 0; i < r->count; i++) fprintf(out, "%s%" PRId64, i ? ", " : "", t[i].ns);
    fprintf(out, "]}%s\n", r + 1 < d->requests + d->requests_count ? "," : "");
}

static void write_totals(const struct drive *d, FILE *out)
{
    int64_t prompt = 0, reused = 0, generated = 0, sampling = 0, text = 0, decode = 0;
    int mixed = 0;
    for (int i = 0; i < d->requests_count; i++) {
        const struct drive_request *r = &d->requests[i];
        prompt += r->prompt_count;
        reused += r->reused;
        generated += r->count;
        sampling += r->sampling_ns;
        text += r->text_ns;
    }
    for (int i = 0; i < d->passes_count; i++) {
        decode += d->passes[i].end_ns - d->passes[i].start_ns;
        mixed += d->passes[i].prompt_tokens && d->passes[i].decode_tokens;
    }
    const double seconds = (double)(d->serve_end_ns - d->serve_start_ns) / 1e9;
    fprintf(out,
            "  \"totals\": {\"requests\": %d, \"prompt_tokens\": %" PRId64 ", \"reused_tokens\": %"
            PRId64 ", \"output_tokens\": %" PRId64 ", \"passes\": %d, \"mixed_passes\": %d, "
            "\"decode_call_ns\": %" PRId64 ", \"sampling_ns\": %" PRId64 ", \"text_ns\": %" PRId64
            ", \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"tokens_per_second\": %.3f},\n",
            d->requests_count, prompt, reused, generated, d->passes_count, mixed, decode, sampling,
            text, seconds, (double)d->serve_cpu_ns / 1e9, (double)generated / seconds);
}

/* Keys and values, each f16: what the cache of a model without sliding windows is. */
static uint64_t kv_bytes(const struct drive *d)
{
    const uint64_t head = (uint64_t)(llama_model_n_embd(d->model) / llama_model_n_head(d->model));
    return 2 * 2 * head * (uint64_t)llama_model_n_head_kv(d->model) *
        (uint64_t)llama_model_n_layer(d->model) * llama_n_ctx(d->ctx);
}

static void write_memory(const struct drive *d, FILE *out)
{
    fprintf(out, "  \"memory\": {\"model_bytes\": %" PRIu64 ", \"kv_bytes\": %" PRIu64 ", "
                 "\"kv_cells\": %u, \"logged\": [", llama_model_size(d->model), kv_bytes(d),
            llama_n_ctx(d->ctx));
    for (int i = 0; i < d->buffers_count; i++)
        fprintf(out, "%s{\"what\": \"%s\", \"bytes\": %.0f}", i ? ", " : "", d->buffers[i].what,
                d->buffers[i].bytes);
    fprintf(out, "]},\n");
}

void drive_truth_write(const struct drive *d, FILE *out)
{
    fprintf(out, "{\n  \"start_ns\": %" PRId64 ", \"start_realtime_ns\": %" PRId64 ",\n",
            d->start_ns, d->start_realtime_ns);
    fprintf(out, "  \"load_start_ns\": %"
            PRId64 ", \"load_end_ns\": %" PRId64 ", \"context_start_ns\": %" PRId64
            ", \"context_end_ns\": %"
            PRId64 ", \"serve_start_ns\": %" PRId64 ", \"serve_end_ns\": %" PRId64
            ",\n", d->load_start_ns, d->load_end_ns, d->context_start_ns, d->context_end_ns,
            d->serve_start_ns, d->serve_end_ns);
    fprintf(out, "  \"seqs\": %d, \"ctx_seq\": %u, \"batch\": %u, \"threads\": %d, "
            "\"warmup_passes\": %d,\n", d->options.seqs, llama_n_ctx_seq(d->ctx),
            llama_n_batch(d->ctx), d->options.threads, d->warmup_passes);
    write_memory(d, out);
    fprintf(out, "  \"perf\": {\"load_ms\": %.3f, \"prompt_ms\": %.3f, \"eval_ms\": %.3f, "
            "\"prompt_tokens\": %d, \"eval_tokens\": %d},\n", d->perf.t_load_ms,
            d->perf.t_p_eval_ms, d->perf.t_eval_ms, d->perf.n_p_eval, d->perf.n_eval);
    write_totals(d, out);
    fprintf(out, "  \"requests\": [\n");
    for (int i = 0; i < d->requests_count; i++) write_request(d, &d->requests[i], out);
    fprintf(out, "  ],\n  \"passes\": [\n");
    for (int i = 0; i < d->passes_count; i++) {
        const struct drive_pass *p = &d->passes[i];
        fprintf(out, "    {\"start_ns\": %" PRId64 ", \"end_ns\": %" PRId64 ", \"prompt_tokens\": "
                     "%d, \"decode_tokens\": %d, \"sequences\": %d, \"outputs\": %d, \"waiting\": "
                     "%d, \"kv_cells\": %d}%s\n", p->start_ns,
                p->end_ns, p->prompt_tokens, p->decode_tokens, p->sequences, p->outputs,
                p->waiting, p->kv_cells, i + 1 < d->passes_count ? "," : "");
    }
    fprintf(out, "  ]\n}\n");
}
