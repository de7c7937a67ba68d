/* placement.c - see placement.h. */
#include "model/placement.h"

#include <stdio.h>

static void placement_keep(struct placement *p, struct device *d, const struct weight *w)
{
    const enum device_refusal refusal = d->ops->keep(d, w);
    const uint64_t bytes = w->row_bytes * w->rows;
    p->matrices++;
    p->bytes += bytes;
    if (refusal == DEVICE_DOES) {
        p->kept++;
        p->kept_bytes += bytes;
    } else if (!p->refusal) {
        p->refusal = refusal;
    }
}

static double placement_megabytes(uint64_t bytes) { return (double)bytes / (1 << 20); }

int model_place(const struct model *m, struct forward *f, struct device *d, struct placement *out,
                struct fail *why)
{
    *out = (struct placement){ .refusal = DEVICE_DOES };
    if (forward_use_device(f, d, why)) return -1;
    for (uint32_t i = 0; i < m->layers; i++) {
        const struct model_layer *y = &m->layer[i];
        const struct weight *ws[] = { &y->q, &y->k, &y->v, &y->o, &y->gate, &y->up, &y->down };
        for (size_t n = 0; n < sizeof(ws) / sizeof(ws[0]); n++) placement_keep(out, d, ws[n]);
    }
    placement_keep(out, d, &m->output);
    char rest[96] = "";
    if (out->kept < out->matrices) {
        snprintf(rest, sizeof(rest), "; the other %.1f MB stay on the CPU (%s)",
                 placement_megabytes(out->bytes - out->kept_bytes),
                 device_refusal_name(out->refusal));
    }
    snprintf(out->text, sizeof(out->text), "%s, %.100s: %u of %u matrices, %.1f MB%s", d->name,
             d->title, out->kept, out->matrices, placement_megabytes(out->kept_bytes), rest);
    return 0;
}
