/* run_file.h - a run file in a folder of its own, for tests. */
#ifndef SONDE_TEST_STORE_RUN_RUN_FILE_H
#define SONDE_TEST_STORE_RUN_RUN_FILE_H

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/run/run.h"

static char dir[64], path[128];

static inline int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/sonde-test-run-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof(path), "%s/a.run", dir);
    return 0;
}

static inline int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir); /* fails if a test left anything behind */
}

static inline void save(const struct sonde_profile *p)
{
    struct sonde_err err = { "" };
    if (sonde_run_save(path, p, &err) != 0) fail_msg("%s", err.text);
}

static inline struct sonde_profile *load(void)
{
    struct sonde_profile *p = NULL;
    struct sonde_err err = { "" };
    if (sonde_run_load(path, &p, &err) != 0) fail_msg("%s", err.text);
    return p;
}

/* Somebody else changes it. */
static inline void edit(const char *sql)
{
    sqlite3 *db;
    char *why = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) fail_msg("%s: %s", sql, why);
    sqlite3_close(db);
}

#endif
