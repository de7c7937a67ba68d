/* store.c - see store.h. */
#include "cli/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "sonde/sonde.h"

enum { READ_AT_ONCE = 1 << 16, RECENT_BLOCK_TICKS = 120 };
#define PROFILE_MAX ((size_t)1 << 30)

struct sonde_store_retention sonde_cli_retention(const struct sonde_cli *cli)
{
    const struct sonde_config_values *c = &cli->config;
    return (struct sonde_store_retention){
        .age_s = (uint64_t)c->storage_retention_days * 86400,
        .raw_s = (uint64_t)c->storage_raw_hours * 3600,
        .profiles = (uint64_t)c->storage_max_profiles,
        .bytes = (uint64_t)c->storage_max_megabytes << 20,
    };
}

/* The settings that a run was recorded with. */
static void put_setting(const char *section, const char *key, const char *value, void *arg)
{
    char name[128];
    snprintf(name, sizeof(name), "%s.%s", section, key);
    sonde_json_str(arg, name, value);
}

static int feed_with(struct sonde_cli_store *s, struct sonde_store *store,
                     struct sonde_collector_options *o)
{
    const int rc = sonde_store_feed_create(s->ops, store, &s->feed);
    if (rc) return rc;
    o->on_tick = sonde_store_feed_tick;
    o->on_tick_arg = s->feed;
    return 0;
}

int sonde_cli_store_open(const struct sonde_cli *cli, const char *name, struct sonde_cli_store *out,
                         struct sonde_collector_options *o)
{
    *out = (struct sonde_cli_store){ .ops = &sonde_store_sqlite };
    if (!cli->config.storage_path[0]) return SONDE_EXIT_OK;
    struct sonde_buf config;
    sonde_buf_init(&config, 1 << 16);
    sonde_buf_putc(&config, '{');
    sonde_config_each_value(&cli->config, put_setting, &config);
    sonde_buf_putc(&config, '}');
    const struct sonde_store_options options = {
        .path = cli->config.storage_path,
        .run_name = name,
        .config = config.error || cli->config.agent_strip ? NULL : config.data, /* it has paths */
        .keep = sonde_cli_retention(cli),
        .spans_per_s = (uint32_t)cli->config.storage_spans_per_second,
        .requests_per_s = (uint32_t)cli->config.storage_requests_per_second,
    };
    struct sonde_err err = { "" };
    int rc = out->ops->open(&options, &out->store, &err);
    sonde_buf_release(&config);
    if (rc) {
        out->store = NULL;
        return rc == SONDE_EINVAL || rc == SONDE_EVERSION ? sonde_cli_usage(cli, "%s", err.text)
                                                          : sonde_cli_fail(cli, "%s", err.text);
    }
    if (feed_with(out, out->store, o) == 0) return SONDE_EXIT_OK;
    sonde_cli_store_close(out);
    return sonde_cli_fail(cli, "out of memory");
}

void sonde_cli_store_recent(const struct sonde_cli *cli, struct sonde_cli_store *s,
                            struct sonde_collector_options *o)
{
    const struct sonde_config_values *c = &cli->config;
    const struct sonde_store_options options = {
        .keep = { .age_s = (uint64_t)(c->storage_recent_hours * 3600),
                  .bytes = (uint64_t)c->storage_recent_megabytes << 20, .force = 1 },
        .block_ticks = RECENT_BLOCK_TICKS,
        .spans_per_s = (uint32_t)c->storage_spans_per_second,
        .requests_per_s = (uint32_t)c->storage_requests_per_second,
    };
    struct sonde_err err = { "" };
    if (s->store || !options.keep.bytes || !options.keep.age_s) return;
    s->ops = &sonde_store_sqlite;
    int rc = sonde_store_recent_open(&options, &s->recent, &err);
    if (!rc) rc = feed_with(s, s->recent, o);
    if (!rc) return;
    s->ops->close(s->recent);
    s->recent = NULL;
    sonde_log(SONDE_LOG_WARN, "the last hours are not kept: %s. What is in memory is shown; TMPDIR names "
              "another folder, storage.recent_megabytes=0 turns it off", err.text);
}

void sonde_cli_store_attach(const struct sonde_cli_store *s, struct sonde_model *m)
{
    if (s->feed) sonde_store_feed_spans(s->feed, m);
}

void sonde_cli_store_request(const struct sonde_cli_store *s, const struct sonde_infer_request *r)
{
    if (r->flags & SONDE_INFER_WENT_ON) return; /* it is in the store */
    if (s->feed) sonde_store_feed_request(s->feed, r);
}

void sonde_cli_store_close(struct sonde_cli_store *s)
{
    sonde_store_feed_destroy(s->feed);
    if (s->ops) {
        s->ops->close(s->store);
        s->ops->close(s->recent);
    }
    *s = (struct sonde_cli_store){ 0 };
}

static int cli_store_read_file(const char *path, struct sonde_buf *out, struct sonde_err *err)
{
    FILE *f = fopen(path, "re");
    if (!f) return sonde_err_set(err, SONDE_EIO, "cannot read '%s': %s", path, strerror(errno));
    size_t n = 1;
    while (n > 0) {
        char *room = sonde_buf_reserve(out, READ_AT_ONCE);
        n = room ? fread(room, 1, READ_AT_ONCE, f) : 0;
        out->len += n;
    }
    const int bad = ferror(f);
    fclose(f);
    if (bad) return sonde_err_set(err, SONDE_EIO, "cannot read '%s'", path);
    return out->error ? sonde_err_set(err, out->error, "no memory to read '%s'", path) : 0;
}

/* What it is to the user: the kind of most of its samples. */
static const char *cli_store_kind_of(const struct sonde_profile *p)
{
    uint32_t count[SONDE_SAMPLE_KIND_COUNT] = { 0 };
    int most = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) count[p->samples[i].kind]++;
    for (int k = 1; k < SONDE_SAMPLE_KIND_COUNT; k++) most = count[k] > count[most] ? k : most;
    return sonde_sample_kind_name((enum sonde_sample_kind)most);
}

int sonde_cli_store_profile(struct sonde_store *s, const char *path, const struct sonde_profile *p,
                            const char *name, struct sonde_err *err)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    char clean[64];
    snprintf(clean, sizeof(clean), "%s", name);
    for (char *c = clean; *c; c++) {
        if (!strchr(allowed, *c)) *c = '_';
    }
    const struct sonde_store_profile row = {
        .name = clean,
        .kind = cli_store_kind_of(p),
        .program = sonde_profile_str(p, p->program),
        .start_s = (double)p->start_ns * 1e-9,
        .end_s = (double)p->end_ns * 1e-9,
        .samples = p->samples_count,
    };
    struct sonde_buf data;
    sonde_buf_init(&data, PROFILE_MAX);
    int rc = cli_store_read_file(path, &data, err);
    if (!rc) rc = sonde_store_sqlite.profile_put(s, &row, data.data, data.len, NULL, err);
    sonde_buf_release(&data);
    return rc;
}
