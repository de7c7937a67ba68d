/* schema.c - the tables of a store, and how a file of an older version gets them. See
 * private.h for what they are. */
#include "sonde/sonde.h"
#include "store/sqlite/private.h"

#define TEXT_OF(x) #x
#define NUMBER(x) TEXT_OF(x)

const int64_t store_tier_ms[STORE_TIERS] = { 0, 10000, 60000, 3600000 };
const int64_t store_tier_block_ms[STORE_TIERS] = { 0, 3600000, 6 * 3600000, 24 * 3600000 };

/* What makes a file of version n one of n + 1. */
static const char *const migrations[STORE_VERSION] = {
    "CREATE TABLE runs(id INTEGER PRIMARY KEY, name TEXT NOT NULL, tags TEXT NOT NULL,"
    " host TEXT NOT NULL, version TEXT NOT NULL, config TEXT NOT NULL, start_ms INTEGER NOT NULL,"
    " end_ms INTEGER NOT NULL, ticks INTEGER NOT NULL, rolled INTEGER NOT NULL);"
    "CREATE TABLE series(id INTEGER PRIMARY KEY, name TEXT NOT NULL, labels TEXT NOT NULL,"
    " type INTEGER NOT NULL, kind INTEGER NOT NULL, scale REAL NOT NULL, unit TEXT NOT NULL,"
    " source TEXT NOT NULL, program TEXT NOT NULL, pid INTEGER NOT NULL, help TEXT NOT NULL,"
    " seen_ms INTEGER NOT NULL,"
    " UNIQUE(name, labels, type, scale));"
    "CREATE TABLE head(id INTEGER PRIMARY KEY, run INTEGER NOT NULL, time_ms INTEGER NOT NULL,"
    " data BLOB NOT NULL);"
    "CREATE TABLE blocks(id INTEGER PRIMARY KEY, run INTEGER NOT NULL, tier INTEGER NOT NULL,"
    " from_ms INTEGER NOT NULL, to_ms INTEGER NOT NULL, ticks INTEGER NOT NULL,"
    " interval_ms REAL NOT NULL, times BLOB NOT NULL);"
    "CREATE INDEX blocks_by_time ON blocks(tier, to_ms);"
    "CREATE TABLE chunks(id INTEGER PRIMARY KEY, data BLOB NOT NULL);"
    "CREATE TABLE gaps(run INTEGER NOT NULL, from_ms INTEGER NOT NULL, to_ms INTEGER NOT NULL,"
    " reason TEXT NOT NULL);"
    "CREATE TABLE profiles(id INTEGER PRIMARY KEY, run INTEGER NOT NULL, name TEXT NOT NULL,"
    " kind TEXT NOT NULL, program TEXT NOT NULL, start_ms INTEGER NOT NULL,"
    " end_ms INTEGER NOT NULL, samples INTEGER NOT NULL, bytes INTEGER NOT NULL,"
    " plain_bytes INTEGER NOT NULL, data BLOB NOT NULL);"
    "CREATE INDEX profiles_by_name ON profiles(name);",
    "CREATE TABLE spans(id INTEGER PRIMARY KEY, run INTEGER NOT NULL, from_ms INTEGER NOT NULL,"
    " to_ms INTEGER NOT NULL, kept INTEGER NOT NULL, seen INTEGER NOT NULL,"
    " plain_bytes INTEGER NOT NULL, data BLOB NOT NULL);"
    "CREATE INDEX spans_by_time ON spans(to_ms);"
    "CREATE INDEX spans_by_run ON spans(run);"
    "CREATE TABLE requests(id INTEGER PRIMARY KEY, run INTEGER NOT NULL, from_ms INTEGER NOT NULL,"
    " to_ms INTEGER NOT NULL, kept INTEGER NOT NULL, seen INTEGER NOT NULL,"
    " plain_bytes INTEGER NOT NULL, data BLOB NOT NULL);"
    "CREATE INDEX requests_by_time ON requests(to_ms);"
    "CREATE INDEX requests_by_run ON requests(run);"
    "CREATE TABLE findings(id INTEGER PRIMARY KEY, run INTEGER NOT NULL, time_ms INTEGER NOT NULL,"
    " kind TEXT NOT NULL, subject TEXT NOT NULL, severity INTEGER NOT NULL, value REAL,"
    " unit TEXT NOT NULL, text TEXT NOT NULL);"
    "CREATE INDEX findings_by_time ON findings(time_ms);"
    "CREATE TABLE modules(run INTEGER NOT NULL, path TEXT NOT NULL, build_id TEXT NOT NULL,"
    " PRIMARY KEY(run, path, build_id)) WITHOUT ROWID;"
    "CREATE TABLE heaps(profile INTEGER PRIMARY KEY, run INTEGER NOT NULL,"
    " time_ms INTEGER NOT NULL, program TEXT NOT NULL, exact INTEGER NOT NULL, live_bytes REAL,"
    " live_count REAL, alloc_bytes REAL, alloc_count REAL, peak_bytes REAL, rss_bytes REAL,"
    " lost_bytes REAL);"
    "ALTER TABLE runs ADD COLUMN spans INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE runs ADD COLUMN requests INTEGER NOT NULL DEFAULT 0;"
    /* Deleting what is old begins with looking for it. */
    "CREATE INDEX blocks_by_start ON blocks(from_ms);"
    "CREATE INDEX blocks_by_end ON blocks(to_ms);"
    "CREATE INDEX blocks_by_run ON blocks(run, tier, to_ms);"
    "CREATE INDEX profiles_by_run ON profiles(run);",
};

int store_check_kind(struct sonde_store *s, sqlite3 *db, int64_t *version, struct sonde_err *err)
{
    int64_t application = 0, tables = 0;
    int rc = store_number(s, db, "PRAGMA application_id", 0, &application, err);
    if (!rc) rc = store_number(s, db, "PRAGMA user_version", 0, version, err);
    if (!rc) rc = store_number(s, db, "SELECT count(*) FROM sqlite_schema", 0, &tables, err);
    if (rc) return rc;
    if (application != STORE_APPLICATION && (tables || application)) {
        return sonde_err_set(err, SONDE_EINVAL, "'%s' is an SQLite database, but not a store that "
                             "sonde made: choose another file", s->path);
    }
    if (*version > STORE_VERSION) {
        return sonde_err_set(err, SONDE_EVERSION, "store '%s' is of a newer sonde (format %lld, "
                             "this one knows up to %d): update sonde, or choose another file",
                             s->path, (long long)*version, STORE_VERSION);
    }
    return 0;
}

int store_migrate(struct sonde_store *s, struct sonde_err *err)
{
    int64_t version = 0;
    int rc = store_check_kind(s, s->db, &version, err);
    if (!rc && version == STORE_VERSION) return 0;
    if (!rc) rc = store_exec(s, "BEGIN IMMEDIATE", err);
    if (!rc) rc = store_check_kind(s, s->db, &version, err); /* another may have been faster */
    for (; !rc && version >= 0 && version < STORE_VERSION; version++) {
        rc = store_exec(s, migrations[version], err);
    }
    if (!rc) {
        rc = store_exec(s, "PRAGMA application_id=" NUMBER(STORE_APPLICATION) ";"
                        "PRAGMA user_version=" NUMBER(STORE_VERSION) "; COMMIT", err);
    }
    if (rc) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}
