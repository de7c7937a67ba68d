/* offload.c - see offload.h. Of a pass sonde is told at its end, of each operation the mean, as
 * matmul.c does for the CPU. */
#include "math/offload.h"

#include <string.h>

static struct sonde_counter transfer_counter(const char *device, const char *direction)
{
    static const char *const labels[] = { "device", "direction", NULL };
    const struct sonde_metric metric = {
        .size = sizeof(metric), .name = "sonde_engine_transfer_bytes_total", .unit = "bytes",
        .help = "Activations and results copied to a device and back.", .labels = labels,
        .scale = 1, .kind = SONDE_KIND_THROUGHPUT };
    const char *const values[] = { device, direction };
    struct sonde_family family;
    sonde_define(SONDE_COUNTER, &metric, &family);
    return sonde_counter_bind(family, values);
}

void offload_open(struct offload *o, struct device *d)
{
    *o = (struct offload){ .device = d };
    o->product = sonde_device_op(d->name, "matmul");
    o->copy = sonde_device_op(d->name, "copy");
    o->to = transfer_counter(d->name, "to_device");
    o->from = transfer_counter(d->name, "from_device");
}

void offload_pass_begin(struct offload *o)
{
    memset(&o->account, 0, sizeof(o->account));
    memset(o->refused, 0, sizeof(o->refused));
    o->products = o->ticks = 0;
}

uint64_t offload_pass_end(struct offload *o)
{
    if (!o->device) return 0;
    const struct device_account *a = &o->account;
    sonde_device_op_record_mean(o->product, a->matmul_ns, o->products);
    sonde_device_op_record_mean(o->copy, a->copy_ns, a->copies);
    sonde_counter_add(o->to, a->to_bytes);
    sonde_counter_add(o->from, a->from_bytes);
    for (int i = 0; i < DEVICE_REFUSALS; i++) {
        for (uint32_t n = 0; n < o->refused[i]; n++) {
            sonde_device_fallback(o->device->name, device_refusal_name((enum device_refusal)i));
        }
    }
    return o->ticks;
}

uint32_t offload_run(struct offload *o, const void *acts, uint32_t count,
                     const struct matmul_product *products, uint32_t products_count, int timed)
{
    struct device *d = o->device;
    struct matmul_product mine[MATMUL_PRODUCTS_MAX];
    uint32_t done = 0, n = 0;
    for (uint32_t i = 0; i < products_count; i++) {
        const enum device_refusal refusal = d->ops->refusal(d, products[i].w);
        o->refused[refusal] += refusal != DEVICE_DOES;
        if (refusal != DEVICE_DOES) continue;
        mine[n++] = products[i];
        done |= 1u << i;
    }
    if (!n) return 0;
    const uint64_t begin = timed ? sonde_ticks() : 0;
    const enum device_refusal refusal = d->ops->multiply(d, acts, count, mine, n, &o->account);
    if (timed) o->ticks += sonde_ticks() - begin;
    if (refusal == DEVICE_DOES) {
        o->products += n;
        return done;
    }
    o->refused[refusal] += n;
    return 0;
}
