/* lock_sqlite.c - threads of a shop that write to one SQLite database, each with a connection
 * of its own and a busy timeout. SQLite has one writer at a time; the others sleep and try
 * again. */
#include <pthread.h>
#include <sqlite3.h>

#include "bench.h"

enum { THREADS_MAX = 8 };

static struct bench b;
static char path[4096];
static unsigned rows_each;

static void database_do(sqlite3 *db, const char *sql)
{
    char *why = NULL; /* PLANTED: the frame of ours that waits; its caller says for what */
    if (sqlite3_exec(db, sql, NULL, NULL, &why)) {
        fprintf(stderr, "lock_sqlite: %s: %s\n", sql, why);
        exit(1);
    }
}

static sqlite3 *database_open(void)
{
    sqlite3 *db;
    if (sqlite3_open(path, &db)) exit(1);
    sqlite3_busy_timeout(db, 60000);
    database_do(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL");
    return db;
}

BENCH_NOINLINE static void order_write(sqlite3 *db, sqlite3_stmt *insert, uint64_t *random)
{
    database_do(db, "BEGIN IMMEDIATE"); /* PLANTED: waits for the one writer */
    for (unsigned i = 0; i < rows_each; i++) {
        sqlite3_bind_int64(insert, 1, (sqlite3_int64)(bench_random(random) >> 1));
        sqlite3_bind_int64(insert, 2, (sqlite3_int64)(bench_random(random) % 1000));
        if (sqlite3_step(insert) != SQLITE_DONE) exit(1);
        sqlite3_reset(insert);
    }
    database_do(db, "COMMIT");
}

static void *till(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg;
    sqlite3 *db = database_open();
    sqlite3_stmt *insert;
    if (sqlite3_prepare_v2(db, "INSERT OR REPLACE INTO orders VALUES(?, ?)", -1, &insert, NULL)) {
        exit(1);
    }
    while (bench_running(&b)) {
        order_write(db, insert, &random);
        bench_sleep_us(300); /* the next customer */
    }
    sqlite3_finalize(insert);
    sqlite3_close(db);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX];
    bench_options(&b, argc, argv);
    snprintf(path, sizeof(path), "%s/shop.db", b.dir);
    sqlite3 *db = database_open();
    database_do(db, "CREATE TABLE IF NOT EXISTS orders(id INTEGER PRIMARY KEY, item INTEGER)");
    sqlite3_close(db);
    const unsigned count = bench_between(&b.random, 4, THREADS_MAX);
    rows_each = bench_between(&b.random, 500, 3000);
    for (unsigned i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, till, (void *)(uintptr_t)bench_random(&b.random))) {
            return 1;
        }
    }
    for (unsigned i = 0; i < count; i++) pthread_join(threads[i], NULL);
    return 0;
}
