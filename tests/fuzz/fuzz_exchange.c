/* fuzz_exchange.c - series that are imported: JSON, CSV, OpenMetrics, Prometheus' text. The first
 * byte says which. What was read as JSON or CSV and is written as JSON is read again, and is the
 * same. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "store/transfer/transfer.h"

static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
    SEED("0{\"format\":\"sonde-series\",\"version\":1,\"series\":[\n"
         "{\"name\":\"c\",\"type\":\"counter\",\"kind\":\"time\",\"unit\":\"s\",\"help\":\"h\","
         "\"source\":\"\",\"labels\":{\"a\":\"b\\\"\"},\"program\":\"p\",\"pid\":7,\"scale\":1e-9,"
         "\"points\":[[1000,5,\"zero\"],[2000,\"9007199254740993\"],[3000,1,\"base\"]]},\n"
         "{\"name\":\"g\",\"type\":\"gauge\",\"points\":[[1,\"NaN\"],[2,-0.0]]},{\"name\":\"h\","
         "\"type\":\"histogram\",\"points\":[[1,2,-3,[[5,1],[7,2]]]]}\n]}\n"),
    SEED("1name,labels,type,time_ms,value,start,zero,sum,buckets\r\nc,\"a=\"\"b\"\"\",counter,1000,"
         "5,zero,,,\r\n"
         "c,\"a=\"\"b\"\"\",counter,2000,6,,,,\r\nh,,histogram,1,,,2,-3,5:1 7:2\r\n"
         "g,,gauge,1,NaN,,,,\r\n"),
    SEED("2# TYPE c counter\nc_total{a=\"b\"} 0.3 1.000\nc_created{a=\"b\"} 1.000 1.000\n"
         "# TYPE h histogram\n"
         "h_bucket{le=\"0.0\"} 1 1.0\nh_bucket{le=\"1.0\"} 2 1.0\nh_bucket{le=\"+Inf\"} 2 1.0\n"
         "h_sum 1 1.0\nh_count 2 1.0\n# EOF\n"),
    SEED("3# TYPE h histogram\nh_bucket{le=\"0.3\"} 1 1000\nh_bucket{le=\"+Inf\"} 2 1000\n"
         "h_sum 0.7 1000\nh_count 2 1000\n"),
};

#include "fuzz/fuzz_seeds.h"

static void write_all(const struct sonde_transfer *x, struct sonde_buf *out)
{
    struct sonde_transfer_writer w = { .out = out };
    sonde_buf_reset(out);
    sonde_buf_puts(out, "{\"format\":\"sonde-series\",\"version\":1,\"series\":[");
    for (size_t i = 0; i < x->count; i++) sonde_transfer_json_write(&w, &x->at[i]);
    sonde_buf_puts(out, "]}");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    struct sonde_transfer x = { 0 }, again = { 0 };
    struct sonde_transfer_result r;
    struct sonde_err err;
    struct sonde_buf a, b;
    const enum sonde_transfer_format format = (enum sonde_transfer_format)(data[0] & 3);
    sonde_buf_init(&a, 1 << 22);
    sonde_buf_init(&b, 1 << 22);
    if (sonde_transfer_read((const char *)data + 1, size - 1, format, &x, &r, &err) == 0) {
        write_all(&x, &a);
        CHECK(!a.error);
        if (sonde_transfer_json_read(a.data, a.len, &again, &err) == 0) {
            write_all(&again, &b);
            CHECK(a.len == b.len && !memcmp(a.data, b.data, a.len));
        }
    }
    sonde_transfer_release(&x);
    sonde_transfer_release(&again);
    sonde_buf_release(&a);
    sonde_buf_release(&b);
    return 0;
}
