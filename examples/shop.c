/* shop.c - a small request server that is no inference engine: the general API at work.
 *
 *   acceptor ──▶ queue ──▶ workers: parse ▶ compute ▶ respond
 *   restocker: once a second refills and re-sorts the catalogue
 *
 * There is no network: the acceptor makes request texts at a given rate, everything behind it is
 * real work. Every kind of record the public header offers is used at least once; look for
 * sonde_ and SONDE_ to see how little that takes. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sonde/sonde.h"

#define PRODUCTS 4096u
#define QUEUE_MAX 512u
#define THREADS_MAX 256
#define CACHE_WORKER 64u   /* entries of each worker's own cache */
#define CACHE_SHARED 1024u /* entries of the cache all workers share */
#define DEADLINE_NS 250000000ull

enum route { ROUTE_SEARCH, ROUTE_PRODUCT, ROUTE_CHECKOUT, ROUTE_COUNT };
enum status { STATUS_200, STATUS_400, STATUS_409, STATUS_503, STATUS_COUNT };

static const char *const route_name[ROUTE_COUNT] = { "search", "product", "checkout" };
static const char *const status_name[STATUS_COUNT] = { "200", "400", "409", "503" };

/* ---- What is measured -------------------------------------------------------------------- */

static struct sonde_counter requests_total[ROUTE_COUNT][STATUS_COUNT];
static struct sonde_counter rejected_total;
static struct sonde_gauge queue_depth, in_flight, stock_items;
static struct sonde_hist duration[ROUTE_COUNT];
static struct sonde_hist queue_wait, response_size;
static struct sonde_pool caches;
static uint32_t attr_route, attr_product, attr_results, attr_score, span_request;

static void metrics_define(void)
{
    static const char *const by_route_status[] = { "route", "status", NULL };
    static const char *const by_route[] = { "route", NULL };
    struct sonde_family requests, seconds;

    /* A label set is looked up once, here; recording then is one add. */
    sonde_define(SONDE_COUNTER,
                 &(struct sonde_metric){ .size = sizeof(struct sonde_metric),
                                         .name = "shop_requests_total",
                                         .help = "Requests answered.",
                                         .source = "shop",
                                         .labels = by_route_status,
                                         .kind = SONDE_KIND_COUNTER },
                 &requests);
    sonde_define(SONDE_HISTOGRAM,
                 &(struct sonde_metric){ .size = sizeof(struct sonde_metric),
                                         .name = "shop_request_duration_seconds",
                                         .help = "From taking a request to its answer.",
                                         .unit = "seconds",
                                         .source = "shop",
                                         .labels = by_route,
                                         .scale = 1e-9,
                                         .kind = SONDE_KIND_TIME },
                 &seconds);
    for (int r = 0; r < ROUTE_COUNT; r++) {
        duration[r] = sonde_hist_bind(seconds, (const char *const[]){ route_name[r] });
        for (int s = 0; s < STATUS_COUNT; s++) {
            requests_total[r][s] = sonde_counter_bind(
                requests, (const char *const[]){ route_name[r], status_name[s] });
        }
    }
    rejected_total = sonde_counter("shop_rejected_total", "Requests refused: the queue was full.");
    queue_depth = sonde_gauge("shop_queue_depth", "Requests waiting for a worker.");
    in_flight = sonde_gauge("shop_requests_in_flight", "Requests being worked on.");
    stock_items = sonde_gauge("shop_stock_items", "Items that can be sold.");
    queue_wait = sonde_hist("shop_queue_wait_seconds", "Time requests wait for a worker.", 1e-9);
    response_size = sonde_hist("shop_response_bytes", "Size of answers.", 1);
    caches = sonde_pool("caches"); /* memory with a name, beside what the heap profiler sees */
    attr_route = sonde_name("route");
    attr_product = sonde_name("product");
    attr_results = sonde_name("results");
    attr_score = sonde_name("best_score");
    span_request = sonde_name("request");
}

/* ---- The shop ---------------------------------------------------------------------------- */

struct product {
    uint64_t key; /* what searches are matched with */
    uint32_t price_cents;
    atomic_int stock;
};

struct request {
    char text[96];
    uint64_t accepted;        /* ticks */
    struct sonde_trace trace; /* the acceptor's, so that the worker's spans join it */
};

struct cache_entry {
    uint32_t product; /* id + 1; 0 = empty */
    uint64_t digest;
};

static struct product products[PRODUCTS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all of the next block */
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
static pthread_cond_t stop_cond;
static struct request queue[QUEUE_MAX];
static size_t queue_head, queue_len;
static int stopping;

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cache_entry cache_shared[CACHE_SHARED];

static atomic_ullong answered, failed, refused;
static double rate = 400;

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static uint64_t random_next(uint64_t *state) { return mix(*state += 0x9e3779b97f4a7c15ull); }

static double random_unit(uint64_t *state) { return (double)(random_next(state) >> 11) * 0x1p-53; }

/* Few products are asked for often, most seldom: what makes caches useful. */
static uint32_t random_product(uint64_t *state)
{
    const double u = random_unit(state);
    return (uint32_t)(u * u * u * (PRODUCTS - 1));
}

static void backend_wait(uint64_t *state, long mean_us)
{
    const double us = -log(1 - random_unit(state)) * (double)mean_us;
    nanosleep(&(struct timespec){ .tv_nsec = (long)(us * 1e3) % 100000000 }, NULL);
}

/* Sleeps until then (CLOCK_MONOTONIC). 1 = the program is to stop. */
static int sleep_until(const struct timespec *then)
{
    pthread_mutex_lock(&lock);
    while (!stopping && pthread_cond_timedwait(&stop_cond, &lock, then) != ETIMEDOUT) {}
    const int stop = stopping;
    pthread_mutex_unlock(&lock);
    return stop;
}

static void timespec_add(struct timespec *t, double seconds)
{
    const double whole = floor(seconds);
    t->tv_sec += (time_t)whole;
    t->tv_nsec += (long)((seconds - whole) * 1e9);
    if (t->tv_nsec >= 1000000000) {
        t->tv_nsec -= 1000000000;
        t->tv_sec++;
    }
}

/* ---- Acceptor ---------------------------------------------------------------------------- */

static void request_make(struct request *q, uint64_t *state)
{
    const uint32_t product = random_product(state);
    const uint64_t kind = random_next(state) % 100;
    if (kind < 55) {
        snprintf(q->text, sizeof(q->text), "GET /search?term=%" PRIu32, product);
    } else if (kind < 88) {
        snprintf(q->text, sizeof(q->text), "GET /product?id=%" PRIu32, product);
    } else {
        /* Some clients forget to say which product. */
        snprintf(q->text, sizeof(q->text),
                 kind < 98 ? "GET /checkout?id=%" PRIu32 : "GET /checkout", product);
    }
}

static void accept_one(uint64_t *state)
{
    SONDE_SCOPE("accept");
    struct request q = { .accepted = sonde_ticks(), .trace = sonde_trace_current() };

    request_make(&q, state);
    sonde_bandwidth_in("client", strlen(q.text));

    pthread_mutex_lock(&lock);
    const int room = queue_len < QUEUE_MAX;
    if (room) {
        queue[(queue_head + queue_len++) % QUEUE_MAX] = q;
        sonde_gauge_set(queue_depth, (double)queue_len);
        pthread_cond_signal(&not_empty);
    }
    pthread_mutex_unlock(&lock);
    if (!room) {
        sonde_counter_add(rejected_total, 1);
        atomic_fetch_add(&refused, 1);
    }
}

static void *acceptor(void *arg)
{
    uint64_t state = 1;
    struct timespec next;
    (void)arg;
    clock_gettime(CLOCK_MONOTONIC, &next);
    /* Arrivals as they come in life: independent of each other, so gaps are exponential. */
    do {
        accept_one(&state);
        timespec_add(&next, -log(1 - random_unit(&state)) / rate);
    } while (!sleep_until(&next));
    return NULL;
}

/* ---- Workers ----------------------------------------------------------------------------- */

struct worker {
    uint64_t random;
    struct cache_entry cache[CACHE_WORKER];
};

static int parse(const char *text, enum route *route, uint32_t *product)
{
    SONDE_SCOPE("parse");
    char name[16], key[8];
    unsigned long id;
    const int fields = sscanf(text, "GET /%15[a-z]?%7[a-z]=%lu", name, key, &id);
    if (fields < 1) return -1;
    int r = 0;
    while (r < ROUTE_COUNT && strcmp(name, route_name[r]) != 0) r++;
    if (r == ROUTE_COUNT) return -1;
    *route = (enum route)r;
    if (fields < 3 || id >= PRODUCTS) return -1;
    *product = (uint32_t)id;
    return 0;
}

struct hit {
    double score;
    uint32_t product;
};

static int hit_compare(const void *a, const void *b)
{
    const double x = ((const struct hit *)a)->score, y = ((const struct hit *)b)->score;
    return (x < y) - (x > y);
}

/* Scores every product for the term and sorts the better half. */
static uint32_t search(uint32_t term, double *best)
{
    static _Thread_local struct hit hits[PRODUCTS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < PRODUCTS; i++) {
        const double score = (double)(mix(products[i].key ^ term) >> 11) * 0x1p-53;
        if (score > 0.5) hits[n++] = (struct hit){ score, i };
    }
    qsort(hits, n, sizeof(hits[0]), hit_compare);
    *best = n ? hits[0].score : 0;
    return n;
}

/* What a product page costs without a cache: the store behind it, and a long hash. */
static uint64_t product_digest(struct worker *w, uint32_t product)
{
    SONDE_SCOPE("load product");
    uint64_t h = products[product].key;
    backend_wait(&w->random, 800);
    for (int i = 0; i < 20000; i++) h = mix(h + product);
    return h;
}

static uint64_t product_cached(struct worker *w, uint32_t product)
{
    struct cache_entry *own = &w->cache[product % CACHE_WORKER];
    struct cache_entry *common = &cache_shared[product % CACHE_SHARED];
    const uint32_t tag = product + 1;
    struct cache_entry found;

    sonde_cache_access("worker", own->product == tag);
    if (own->product == tag) return own->digest;

    pthread_mutex_lock(&cache_lock);
    found = *common;
    pthread_mutex_unlock(&cache_lock);
    sonde_cache_access("shared", found.product == tag);
    if (found.product != tag) {
        found = (struct cache_entry){ tag, product_digest(w, product) };
        pthread_mutex_lock(&cache_lock);
        *common = found;
        pthread_mutex_unlock(&cache_lock);
    }
    *own = found;
    return found.digest;
}

/* An operation: a span, its latency by outcome, and errors counted by type. */
static enum status checkout(struct worker *w, uint32_t product)
{
    struct sonde_op op;
    sonde_op_begin(&op, "reserve stock");
    backend_wait(&w->random, 1500);
    int stock = atomic_load(&products[product].stock);
    while (stock > 0 &&
           !atomic_compare_exchange_weak(&products[product].stock, &stock, stock - 1)) {}
    if (stock <= 0) {
        sonde_op_end(&op, SONDE_ERROR, "out_of_stock");
        return STATUS_409;
    }
    sonde_gauge_add(stock_items, -1);
    sonde_op_end(&op, SONDE_OK, NULL);
    return STATUS_200;
}

static enum status compute(struct worker *w, struct sonde_span *request, enum route route,
                           uint32_t product, uint64_t *result)
{
    SONDE_SCOPE("compute");
    double best = 0;
    switch (route) {
    case ROUTE_SEARCH:
        *result = search(product, &best);
        sonde_span_attr_int(request, attr_results, (int64_t)*result);
        sonde_span_attr_double(request, attr_score, best);
        return STATUS_200;
    case ROUTE_CHECKOUT: return checkout(w, product);
    default: *result = product_cached(w, product); return STATUS_200;
    }
}

static void respond(enum status status, uint32_t product, uint64_t result)
{
    SONDE_SCOPE("respond");
    char body[512];
    int n = snprintf(body, sizeof(body), "{\"status\":%s,\"product\":%" PRIu32 ",\"result\":[",
                     status_name[status], product);
    for (uint64_t i = 0; i < result % 24; i++) {
        n += snprintf(body + n, sizeof(body) - (size_t)n, "%s%" PRIu64, i ? "," : "",
                      mix(result + i) % 1000000);
    }
    n += snprintf(body + n, sizeof(body) - (size_t)n, "]}");
    sonde_bandwidth_out("client", (uint64_t)n);
    sonde_hist_record(response_size, (uint64_t)n);
}

static void handle(struct worker *w, const struct request *q)
{
    /* The spans of this thread continue the acceptor's trace. */
    const struct sonde_trace before = sonde_trace_set(q->trace);
    const uint64_t start = sonde_ticks();
    const uint64_t waited_ns = sonde_ticks_ns(start - q->accepted);
    enum sonde_outcome outcome = SONDE_OK;
    enum status status = STATUS_503;
    enum route route = ROUTE_CHECKOUT;
    uint32_t product = 0;
    uint64_t result = 0;
    struct sonde_span span;

    sonde_gauge_add(in_flight, 1);
    sonde_hist_record_traced(queue_wait, waited_ns);
    sonde_span_begin(&span, span_request);
    if (parse(q->text, &route, &product)) {
        status = STATUS_400;
    } else if (waited_ns < DEADLINE_NS) {
        status = compute(w, &span, route, product, &result);
    }
    respond(status, product, result);
    sonde_span_attr_str(&span, attr_route, route_name[route]);
    sonde_span_attr_int(&span, attr_product, product);
    if (status != STATUS_200) outcome = status == STATUS_503 ? SONDE_TIMEOUT : SONDE_ERROR;

    /* Before the span ends, so that the histogram's exemplar names this trace. */
    sonde_hist_record_traced(duration[route], sonde_ticks_ns(sonde_ticks() - start));
    sonde_span_end(&span, outcome);
    sonde_counter_add(requests_total[route][status], 1);
    sonde_gauge_add(in_flight, -1);
    sonde_trace_set(before);

    atomic_fetch_add(&answered, 1);
    if (outcome != SONDE_OK) atomic_fetch_add(&failed, 1);
}

static void *worker(void *arg)
{
    struct worker w = { .random = (uintptr_t)arg * 7919 };
    sonde_pool_add(caches, sizeof(w.cache));
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!queue_len && !stopping) pthread_cond_wait(&not_empty, &lock);
        if (!queue_len) {
            pthread_mutex_unlock(&lock);
            sonde_pool_add(caches, -(int64_t)sizeof(w.cache));
            return NULL;
        }
        const struct request q = queue[queue_head];
        queue_head = (queue_head + 1) % QUEUE_MAX;
        sonde_gauge_set(queue_depth, (double)--queue_len);
        pthread_mutex_unlock(&lock);
        handle(&w, &q);
    }
}

/* ---- Restocker --------------------------------------------------------------------------- */

static int price_compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void restock(void)
{
    uint64_t visited = 0;
    SONDE_RESOURCE_SCOPE("restock");            /* wall, CPU, page faults, memory */
    SONDE_THROUGHPUT_SCOPE("restock", visited); /* products per second */

    uint32_t *prices = malloc(PRODUCTS * sizeof(*prices));
    if (!prices) return;
    int64_t items = 0;
    for (; visited < PRODUCTS; visited++) {
        struct product *p = &products[visited];
        prices[visited] = p->price_cents;
        if (atomic_load(&p->stock) < 2) atomic_fetch_add(&p->stock, 1);
        items += atomic_load(&p->stock);
    }
    qsort(prices, PRODUCTS, sizeof(*prices), price_compare);
    sonde_gauge_set(sonde_gauge("shop_price_median_cents", "Median price."), prices[PRODUCTS / 2]);
    sonde_gauge_set(stock_items, (double)items);
    free(prices);
}

static void *restocker(void *arg)
{
    struct timespec next;
    (void)arg;
    clock_gettime(CLOCK_MONOTONIC, &next);
    do {
        restock();
        timespec_add(&next, 1);
    } while (!sleep_until(&next));
    return NULL;
}

/* ---- main -------------------------------------------------------------------------------- */

static void usage(FILE *to)
{
    fputs("usage: example_shop [--seconds N] [--threads N] [--rate R]\n"
          "  --seconds N  stop after N seconds (default: at SIGINT or SIGTERM)\n"
          "  --threads N  workers, 1 to 256 (default 4)\n"
          "  --rate R     requests a second, up to 1000000 (default 400)\n",
          to);
}

static double number(const char *option, const char *text, double min, double max)
{
    char *end;
    const double v = text ? strtod(text, &end) : 0;
    if (!text || end == text || *end || !(v >= min && v <= max)) {
        fprintf(stderr, "example_shop: %s takes a number from %g to %g, not '%s'\n", option, min,
                max, text ? text : "");
        exit(2);
    }
    return v;
}

static void start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    const int error = pthread_create(thread, NULL, run, arg);
    if (!error) return;
    fprintf(stderr, "example_shop: cannot start a thread: %s\n", strerror(error));
    exit(1);
}

/* Until the time is up or a signal asks to stop. */
static void wait_for_end(const sigset_t *signals, double seconds)
{
    if (!(seconds > 0)) {
        while (sigwaitinfo(signals, NULL) < 0 && errno == EINTR) {}
        return;
    }
    struct timespec now, end, left;
    clock_gettime(CLOCK_MONOTONIC, &end);
    timespec_add(&end, seconds);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
        left = (struct timespec){ end.tv_sec - now.tv_sec, end.tv_nsec - now.tv_nsec };
        if (left.tv_nsec < 0) {
            left.tv_sec--;
            left.tv_nsec += 1000000000;
        }
        if (left.tv_sec < 0) return;
    } while (sigtimedwait(signals, NULL, &left) < 0 && errno == EINTR);
}

int main(int argc, char **argv)
{
    double seconds = 0;
    int threads = 4;
    for (int i = 1; i < argc; i += 2) {
        const char *option = argv[i], *value = argv[i + 1];
        if (!strcmp(option, "--seconds")) {
            seconds = number(option, value, 0.001, 1e9);
        } else if (!strcmp(option, "--threads")) {
            threads = (int)number(option, value, 1, THREADS_MAX);
        } else if (!strcmp(option, "--rate")) {
            rate = number(option, value, 0.01, 1e6);
        } else {
            const int help = !strcmp(option, "--help");
            usage(help ? stdout : stderr);
            return help ? 0 : 2;
        }
    }

    const int rc =
        sonde_open(&(struct sonde_config){ .size = sizeof(struct sonde_config), .name = "shop" });
    if (rc) fprintf(stderr, "example_shop: runs unrecorded: %s\n", sonde_strerror(rc));
    metrics_define();

    uint64_t state = 42;
    for (uint32_t i = 0; i < PRODUCTS; i++) {
        products[i].key = random_next(&state);
        products[i].price_cents = (uint32_t)(random_next(&state) % 20000) + 99;
        atomic_store(&products[i].stock, 1);
    }

    /* Blocked in every thread, so that the main thread alone takes them. */
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);

    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&stop_cond, &attr);
    pthread_condattr_destroy(&attr);

    pthread_t pool[THREADS_MAX], acceptor_thread, restocker_thread;
    start(&restocker_thread, restocker, NULL);
    for (int i = 0; i < threads; i++) start(&pool[i], worker, (void *)(uintptr_t)(i + 1));
    start(&acceptor_thread, acceptor, NULL);

    wait_for_end(&signals, seconds);

    pthread_mutex_lock(&lock);
    stopping = 1;
    pthread_cond_broadcast(&stop_cond);
    pthread_cond_broadcast(&not_empty);
    pthread_mutex_unlock(&lock);
    pthread_join(acceptor_thread, NULL);
    pthread_join(restocker_thread, NULL);
    for (int i = 0; i < threads; i++) pthread_join(pool[i], NULL); /* the queue is worked off */

    printf("shop: %llu requests answered, %llu of them with an error, %llu refused\n",
           atomic_load(&answered), atomic_load(&failed), atomic_load(&refused));
    return 0;
}
