/* run_facts.c - see run_facts.h. */
#include "analyze/run_facts.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "profile/infer.h"

static const struct { const char *key, *title; int suspect; } run_facts[] = {
#define SONDE__X(id, key, title, suspect) { key, title, suspect },
    SONDE_RUN_FACTS(SONDE__X)
#undef SONDE__X
};

const char *sonde_run_fact_key(enum sonde_run_fact f)
{
    assert(f < SONDE_FACT_COUNT);
    return run_facts[f].key;
}

const char *sonde_run_fact_title(enum sonde_run_fact f)
{
    assert(f < SONDE_FACT_COUNT);
    return run_facts[f].title;
}

int sonde_run_fact_suspect(enum sonde_run_fact f)
{
    assert(f < SONDE_FACT_COUNT);
    return run_facts[f].suspect;
}

static void run_fact_set(struct sonde_run_facts *out, enum sonde_run_fact f, const char *text,
                         size_t len)
{
    snprintf(out->text[f], SONDE_FACT_BYTES, "%.*s", (int)(len < SONDE_FACT_BYTES ? len
                                                           : SONDE_FACT_BYTES - 1), text);
}

/* "name, Linux 6.1 x86_64, 2 CPUs (MODEL)"; a profile that was stripped has no name. */
static void run_facts_host(const char *host, struct sonde_run_facts *out)
{
    const char *first = strstr(host, ", ");
    if (!first) return;
    const char *second = strstr(first + 2, ", ");
    const char *kernel = second ? first + 2 : host, *cpu = second ? second : first;
    if (second) run_fact_set(out, SONDE_FACT_HOST, host, (size_t)(first - host));
    run_fact_set(out, SONDE_FACT_KERNEL, kernel, (size_t)(cpu - kernel));
    run_fact_set(out, SONDE_FACT_CPU, cpu + 2, strlen(cpu + 2));
}

/* Where the program lies is not part of it: every checkout has another folder. */
static void run_facts_command(const char *command, struct sonde_run_facts *out)
{
    const char *blank = strchr(command, ' ');
    if (blank) run_fact_set(out, SONDE_FACT_ARGUMENTS, blank + 1, strlen(blank + 1));
    else if (*command) run_fact_set(out, SONDE_FACT_ARGUMENTS, "(none)", strlen("(none)"));
}

static void run_facts_build(const struct sonde_profile *p, struct sonde_run_facts *out)
{
    const char *program = out->text[SONDE_FACT_PROGRAM];
    for (uint32_t i = 1; *program && i < p->modules_count; i++) {
        const char *path = sonde_profile_str(p, p->modules[i].path);
        const char *id = sonde_profile_str(p, p->modules[i].build_id);
        if (!*id || strcmp(sonde_path_base(path), program) != 0) continue;
        run_fact_set(out, SONDE_FACT_BUILD_ID, id, strlen(id));
        return;
    }
}

/* The first there is: of an engine with several, their order is that of their first request. */
static void run_facts_model(const struct sonde_profile *p, struct sonde_run_facts *out)
{
    const struct sonde_infer_run *r = p->infer;
    for (uint32_t i = 0; r && i < r->model_count; i++) {
        const struct sonde_infer_model *m = &r->models[i];
        if (!m->model || !*m->model) continue;
        char text[SONDE_FACT_BYTES], bytes[32] = "";
        if (m->load_bytes) snprintf(bytes, sizeof(bytes), ", %llu bytes",
                                    (unsigned long long)m->load_bytes);
        snprintf(text, sizeof(text), "%.200s%s", sonde_path_base(m->model), bytes);
        run_fact_set(out, SONDE_FACT_MODEL, text, strlen(text));
        return;
    }
    for (uint32_t i = 0; r && i < r->request_count; i++) {
        const char *model = r->requests[i].model;
        if (!model || !*model) continue;
        model = sonde_path_base(model);
        run_fact_set(out, SONDE_FACT_MODEL, model, strlen(model));
        return;
    }
}

void sonde_run_facts_of(const struct sonde_profile *p, struct sonde_run_facts *out)
{
    *out = (struct sonde_run_facts){ 0 };
    run_facts_host(sonde_profile_str(p, p->host), out);
    const char *program = sonde_path_base(sonde_profile_str(p, p->program));
    const char *engine = sonde_profile_str(p, p->engine);
    run_fact_set(out, SONDE_FACT_PROGRAM, program, strlen(program));
    run_fact_set(out, SONDE_FACT_ENGINE, engine, strlen(engine));
    run_facts_command(sonde_profile_str(p, p->command), out);
    run_facts_build(p, out);
    run_facts_model(p, out);
}

int sonde_run_fact_differs(const struct sonde_run_facts *a, const struct sonde_run_facts *b,
                           enum sonde_run_fact f)
{
    assert(f < SONDE_FACT_COUNT);
    return a->text[f][0] && b->text[f][0] && strcmp(a->text[f], b->text[f]) != 0;
}
