/* store.c - see store.h. */
#include "cli/store.h"

#include <stdio.h>

#include "base/json.h"
#include "sonde/sonde.h"

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
        .config = config.error ? NULL : config.data,
        .keep = sonde_cli_retention(cli),
    };
    struct sonde_err err = { "" };
    int rc = out->ops->open(&options, &out->store, &err);
    sonde_buf_release(&config);
    if (rc) {
        out->store = NULL;
        return rc == SONDE_EINVAL || rc == SONDE_EVERSION ? sonde_cli_usage(cli, "%s", err.text)
                                                          : sonde_cli_fail(cli, "%s", err.text);
    }
    rc = sonde_store_feed_create(out->ops, out->store, &out->feed);
    if (rc) {
        sonde_cli_store_close(out);
        return sonde_cli_fail(cli, "out of memory");
    }
    o->on_tick = sonde_store_feed_tick;
    o->on_tick_arg = out->feed;
    return SONDE_EXIT_OK;
}

void sonde_cli_store_close(struct sonde_cli_store *s)
{
    sonde_store_feed_destroy(s->feed);
    if (s->ops) s->ops->close(s->store);
    *s = (struct sonde_cli_store){ 0 };
}
